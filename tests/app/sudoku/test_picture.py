"""A puzzle from a picture on the Sudoku page, with a stand-in engine: read, checked, stopped, refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.sudoku.words import SAMPLE
from engine import MINI, SIGHT
from tests.app.chat.test_composer import drop, files_of
from tests.app.sudoku.reading_engine import ReadingEngine
from tests.engine.seeing import picture

from .conftest import Open, idle

READ = "000000012" + "0" * 63 + "100000000"


@pytest.fixture
def fake() -> ReadingEngine:
    made = ReadingEngine()
    made.written = READ.replace("0", ".")
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "page.png"
    path.write_bytes(picture(60, 40).data)
    return path


def test_a_chosen_picture_becomes_the_puzzle(
    qtbot: QtBot, open_sudoku: Open, fake: ReadingEngine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_sudoku(MINI)
    model, one = opened.context.model, opened.page
    fake.doubts, fake.hold = (3, 8, 72), True
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(file), ""))
    one.column.picture.click()
    for row in range(1, 10):
        qtbot.waitUntil(lambda row=row: one.column.reason.text() == f"Reading row {row} of 9")  # type: ignore[misc]
        assert one.board.shown.puzzle == READ[: 9 * (row - 1)].ljust(81, "0")
        assert not one.column.picture.isEnabled()
        fake.gate.release()
    idle(qtbot, opened)
    note = one.column.note
    assert (one.puzzle.cells, one.board.doubts, one.board.selected) == (READ, {3, 8, 72}, 3)
    assert note.isVisible()
    assert note.thumb is not None
    assert note.words.text() == "3 cells are unsure: check them."
    assert one.board.cell_name(8) == "Row 1, column 9: 2, given, unsure"
    assert (fake.loaded_by_siblings, opened.context.model) == ([SIGHT, "let go"], model)
    for cell, digit in ((8, "2"), (3, "5")):  # confirmed, corrected
        one.board.selected = cell
        qtbot.keyClick(one.board, digit)
    assert note.words.text() == "1 cell is unsure: check it."
    assert one.puzzle.cells == f"{READ[:3]}5{READ[4:]}"
    one.board.undo()
    one.board.undo()
    assert one.puzzle.cells == SAMPLE
    assert not note.isVisible()
    assert not one.board.doubts


def test_a_picture_is_pasted_and_dropped(qtbot: QtBot, open_sudoku: Open, fake: ReadingEngine, file: Path) -> None:
    opened = open_sudoku(None)
    one = opened.page
    QGuiApplication.clipboard().setImage(QImage(str(file)))
    one.column.paste.click()
    idle(qtbot, opened)
    assert one.puzzle.cells == READ
    assert one.column.note.words.text() == "Compare the board with the picture before you solve it."
    fake.written = fake.written[::-1]
    assert drop(one.board, files_of(file)).isAccepted()
    idle(qtbot, opened)
    assert one.puzzle.cells == READ[::-1]
    assert fake.loads == []


def test_stopped_midway_the_puzzle_stays(qtbot: QtBot, open_sudoku: Open, fake: ReadingEngine, file: Path) -> None:
    opened = open_sudoku(MINI)
    one = opened.page
    fake.hold = True
    opened.controller.read_picture(str(file))
    qtbot.waitUntil(lambda: one.column.reason.text() == "Reading row 1 of 9")
    assert opened.context.reason_to_wait() == "A puzzle is being read from a picture; Esc stops it"
    fake.gate.release(3)
    qtbot.waitUntil(lambda: one.column.reason.text() == "Reading row 4 of 9")
    opened.context.stop()
    fake.gate.release()
    idle(qtbot, opened)
    assert (one.puzzle.cells, one.board.shown.puzzle, one.board.entry.can_undo) == (SAMPLE, SAMPLE, False)
    assert one.column.check.text() == "One solution, 30 givens: medium."
    assert not one.column.note.isVisible()
    assert fake.loaded_by_siblings == [SIGHT, "let go"]


@pytest.mark.parametrize(
    ("written", "doubts", "said"),
    [
        ("." * 81, (), "No Sudoku could be read"),
        ("1" * 81, tuple(range(60)), "No Sudoku could be read"),
        (".........Three circles", (), "Row 2 could not be read"),
    ],
)
def test_a_picture_without_a_grid_is_a_sentence(
    qtbot: QtBot, open_sudoku: Open, fake: ReadingEngine, file: Path, written: str, doubts: tuple[int, ...], said: str
) -> None:
    opened = open_sudoku(MINI)
    one = opened.page
    opened.controller.read_picture(str(file))
    idle(qtbot, opened)
    fake.written, fake.doubts = written, doubts
    opened.controller.read_picture(str(file))
    idle(qtbot, opened)
    assert one.column.check.text().startswith(said)
    assert one.puzzle.cells == READ
    assert one.column.note.isVisible()  # of the picture before, as is the puzzle


def test_what_is_no_picture_is_a_sentence(qtbot: QtBot, open_sudoku: Open, fake: ReadingEngine, tmp_path: Path) -> None:
    opened = open_sudoku(MINI)
    one = opened.page
    path = tmp_path / "notes.txt"
    path.write_text("no picture")
    for source, said in ((path, "in an unsupported format"), (tmp_path / "none.png", "cannot be read")):
        opened.controller.read_picture(str(source))
        idle(qtbot, opened)
        assert said in one.column.check.text()
    assert one.puzzle.cells == SAMPLE
    assert fake.loaded_by_siblings == []
