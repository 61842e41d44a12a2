"""A Sudoku's frames are boards in every format that is drawn, and in the page; its tokens are there on demand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PySide6.QtGui import QColor, QImage

from app.board.paint import given_ground
from app.canvas.geometry import MARGIN
from app.design.tokens import DARKROOM, PAPER, Theme
from app.export.pictures import CELL, PictureSheet, PictureStyle
from app.export.run import Options
from app.inspector.export_dialog import ExportDialog
from app.player.player import Player
from app.state.run.replay import Replay
from app.state.sudoku.board import EMPTY
from app.state.sudoku.placing import placed
from app.state.sudoku.solve_frame import SolveFrame, frame
from engine import Recording, gallery, open_trace

from . import browser as browsers
from .conftest import whole

SQUARES = """[...document.querySelectorAll('#grid .square')].map((cell) => [
    (cell.querySelector('.digit') || {textContent: ''}).textContent, Number(/\\bs(\\d)\\b/.exec(cell.className)[1]),
    ...['given', 'violated', 'clash', 'wrong'].map((name) => cell.classList.contains(name)),
    Number(cell.dataset.at)])"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from browsers.start(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def run() -> Recording:
    """A run that ends with a wrong board."""
    return open_trace(next(one.path for one in gallery() if one.path.stem == "sudoku-stuck"))


def shown(run: Recording, place: int, puzzle: str = "") -> SolveFrame:
    """Returns the window's board at a frame."""
    block = Replay(run).snapshot(place)
    found = placed(run.prompt, block, run.piece)
    return frame(puzzle or found.puzzle, block, run.piece, found.positions)


def measured(run: Recording, **style: Any) -> PictureSheet:
    replay = Replay(run)
    places = (0, 4, len(replay.frames) - 1)
    sheet = PictureSheet(run, replay, places, PictureStyle(DARKROOM, **style))
    list(sheet.measure())
    return sheet


def grounds(picture: QImage | Image.Image, top: int, theme: Theme) -> list[bool]:
    """Says of each of the 81 squares if it has the ground of a given, by a pixel in a corner."""
    found = []
    for cell in range(81):
        x, y = MARGIN + cell % 9 * CELL + 5, top + cell // 9 * CELL + CELL - 3
        pixel = picture.pixelColor(x, y) if isinstance(picture, QImage) else QColor(*picture.getpixel((x, y)))
        found.append(pixel == given_ground(theme))
    return found


@pytest.mark.usefixtures("qapp")
def test_a_picture_is_the_board_with_its_verdict(run: Recording) -> None:
    sheet = measured(run)
    assert sheet.has_boards
    last = sheet.places[-1]
    assert sheet.caption(0) == "noise, before the first step"
    assert sheet.caption(4).split(" · ")[1] == f"accepted {shown(run, 4).accepted} of 81"
    assert sheet.caption(last) == "48 steps · Not solved: 15 of 53 blanks wrong."
    givens = [sign.isdigit() and sign != "0" for sign in shown(run, 0).puzzle]
    assert grounds(sheet.image(last), sheet.top + MARGIN, DARKROOM) == givens
    tokens = measured(run, board=False)
    assert not tokens.has_boards
    assert tokens.caption(last).endswith("89 of 96 are text")
    hidden = measured(run, prompt=False)
    assert "Not solved" not in hidden.caption(last)
    assert not any(grounds(hidden.image(last), hidden.top + MARGIN, DARKROOM))


@pytest.mark.usefixtures("qapp")
def test_a_frame_of_a_film_is_the_board_in_its_colours(run: Recording, tmp_path: Path) -> None:
    path = whole(run, tmp_path / "run.gif", Options(format="gif", theme="paper", frames=(0, 49)))
    with Image.open(path) as film:
        film.seek(1)
        picture = film.convert("RGB")
    top = measured(run).top + MARGIN
    assert grounds(picture, top, PAPER) == [sign != "0" for sign in shown(run, 0).puzzle]
    colors = {color for _, color in picture.getcolors(2**16)}
    assert QColor(PAPER.conflict).getRgb()[:3] in colors  # wrong digits are struck through in it


def test_the_page_shows_the_board_that_the_window_shows(run: Recording, browser: Any, tmp_path: Path) -> None:
    path = whole(run, tmp_path / "run.html")
    for place in (0, 1, 7, 48, 49):
        browser.open(path, f"frame={place}")
        board = shown(run, place)
        found = placed(run.prompt, Replay(run).snapshot(place), run.piece)
        wanted = [
            [
                cell.digit if cell.violated else cell.given or cell.digit,
                int(cell.state),
                bool(cell.given),
                cell.violated,
                cell.in_conflict,
                cell.wrong and not cell.violated,
                position,
            ]
            for cell, position in zip(board.cells, found.positions, strict=True)
        ]
        assert browser.value(SQUARES) == wanted
        assert browser.value("document.querySelectorAll('.clashes line').length") == len(board.conflicts)
    said = "document.getElementById('verdict').textContent"
    assert browser.value(said) == "Not solved: 15 of 53 blanks wrong."
    assert browser.value("document.getElementById('text').textContent") == run.text
    browser.value("document.querySelectorAll('#grid .square')[10].click()")
    assert browser.value("document.getElementById('cell-title').textContent") == "Row 2, column 2"
    browser.press("ArrowDown")
    assert browser.value("document.activeElement.dataset.at") == "21"
    browser.value("(() => { const box = document.getElementById('view'); box.value = 'calm';"
                  " box.dispatchEvent(new Event('change')); })()")  # fmt: skip
    assert browser.value(
        "[document.querySelectorAll('.square').length, document.querySelectorAll('#grid .cell').length]"
    ) == [0, 96]
    assert browser.complaints == []


def test_without_the_prompt_the_page_gives_no_givens_away(run: Recording, browser: Any, tmp_path: Path) -> None:
    browser.open(whole(run, tmp_path / "run.html", Options(prompt=False)), "frame=49")
    board = shown(run, 49, EMPTY.cells)
    assert [square[:3] for square in browser.value(SQUARES)] == [[cell.digit, 4, False] for cell in board.cells]
    assert browser.value("document.getElementById('verdict').textContent") == ""


def test_the_dialog_takes_the_board_of_the_page(run: Recording, qtbot: Any, settings: Any) -> None:
    player = Player()
    player.open(run)
    dialog = ExportDialog(player, None, settings)
    qtbot.addWidget(dialog)
    assert dialog.options().board
    player.set_board(False)
    assert not dialog.options().board
