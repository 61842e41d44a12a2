"""The Sudoku page in the real window with the real embedded model, from typed digits to the verdict and back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.context import SUDOKU
from app.state.run.canvas import CanvasState, CellState
from app.state.run.pace import FULL_SPEED
from app.state.sudoku.board import Board
from app.window.main_window import MainWindow
from engine import SUDOKU as MODEL
from engine import CanvasCommitted, CanvasStarted, StepFinished
from engine.tasks import sudoku
from tests.engine.small import photograph

RUN_MS = 180_000
MAX_MISREAD = 4  # cells of 81; the weights misread none of this picture, and one in a hundred of all
TYPED = 63  # the cell from which the digits are typed
EASY = "004678912072195348198342567859061423426853791713924856961537284287419635345286170"


def idle(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: not window.pages["sudoku"].is_busy, timeout=RUN_MS)


def solve_a_typed_puzzle(qtbot: QtBot, window: MainWindow) -> None:
    one = window.pages["sudoku"].page
    board, column = one.board, one.column
    column.clear.click()
    assert one.check.kind == "empty"
    board.set_puzzle(Board(EASY[:TYPED] + "0" * (81 - TYPED)))
    board.setFocus()
    for cell, digit in enumerate(EASY[TYPED:], start=TYPED):
        board.selected = cell
        if digit != "0":
            qtbot.keyClick(board, digit)
    assert one.puzzle.cells == EASY
    qtbot.keyClick(board, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert one.puzzle[79] == "0"
    column.redo.click()
    assert one.puzzle.cells == EASY
    assert one.check.kind == "one"

    shown: list[int] = []
    one.run.shown.connect(lambda: shown.append(one.run.board.frame.steps if one.run.board.frame is not None else -1))
    window.context.values.speed = 4
    window.context.apply_values()
    column.solve.click()
    idle(qtbot, window)
    trace = one.run.trace
    assert {step for step in shown if step > 0} == set(range(1, len(trace.steps) + 1))
    assert column.verdict.text().startswith("Solved: the puzzle's only solution.")
    assert board.frame is not None
    assert board.frame.answer == sudoku.solutions(EASY)[0]
    assert not any(cell.state == CellState.GIVEN for cell in board.frame.cells)  # none was kept

    live = CanvasState()
    canvases = []
    for event in trace.events:
        live.fold(event)
        if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted) and live.current is not None:
            canvases.append(live.current.tokens(calm=False).copy())
    assert one.scrub.frames == len(canvases)
    for place in range(len(canvases) - 1, -1, -1):
        one.scrub.slider.setValue(place)
        snapshot = one.run.player.snapshot
        assert snapshot is not None
        assert np.array_equal(snapshot.tokens(calm=False), canvases[place])

    column.inspect.click()
    inspector = window.pages.inspector().page
    assert window.pages.stack.currentWidget() is inspector
    assert inspector.player.trace is trace
    assert trace.path is not None
    assert trace.path.exists()


def keep_the_digits(qtbot: QtBot, window: MainWindow) -> None:
    one = window.pages["sudoku"].page
    window.show_page(SUDOKU)
    one.column.keep.click()
    QGuiApplication.clipboard().setText(sudoku.rows(EASY).replace("0", "."))
    one.column.paste.click()
    assert one.puzzle.cells == EASY
    one.column.solve.click()
    idle(qtbot, window)
    replay = one.run.player.replay
    assert replay is not None
    for place in range(len(replay.frames)):
        one.scrub.slider.setValue(place)
        assert one.board.frame is not None
        for cell, given in zip(one.board.frame.cells, EASY, strict=True):
            assert given == "0" or (cell.state == CellState.GIVEN and cell.digit == given)
    QGuiApplication.clipboard().setText("not a puzzle")
    one.column.paste.click()
    assert one.puzzle.cells == EASY
    assert one.column.check.text() not in ("", one.check.text)


def stop_within_a_step(qtbot: QtBot, window: MainWindow) -> None:
    one = window.pages["sudoku"].page
    for bin, least, most in (("easy", 40, 50), ("medium", 30, 39), ("hard", 25, 29)):
        assert window.actions_by_name.run(f"sudoku-{bin}") == ""
        assert least <= one.puzzle.givens <= most
        assert one.check.kind == "one"
    one.column.keep.click()
    window.context.values.speed = 2
    window.context.apply_values()
    one.column.solve.click()
    qtbot.waitUntil(lambda: one.run.board.frame is not None and one.run.board.frame.steps >= 1, timeout=RUN_MS)
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    idle(qtbot, window)
    assert one.run.trace.result.reason in ("cancelled", "eos")  # it may have been solved before it was shown
    assert one.scrub.slider.value() == one.scrub.slider.maximum()
    assert one.run.board.frame.steps == len(one.run.trace.steps)


def race_two_models(qtbot: QtBot, window: MainWindow) -> None:
    page = window.pages["sudoku"].page
    page.board.set_puzzle(Board(EASY))
    page.column.race.click()
    race = window.pages.race()
    one = race.page
    assert window.pages.current is race
    qtbot.waitUntil(lambda: not race.is_busy and not one.reader.is_busy, timeout=RUN_MS)
    one.clock.pause()
    one.clock.go(one.clock.end)
    assert [card.verdict.text() for card in one.cards] == ["✗ wrong", "✓ right"]
    assert one.cards[1].board.isVisible()
    assert one.headline.text().startswith("Safelight Base with Sudoku adapter: the only right answer")


def test_a_puzzle_is_typed_solved_kept_stopped_and_raced(
    qtbot: QtBot, window_with: Callable[[str], MainWindow]
) -> None:
    window = window_with(MODEL)
    window.show_page(SUDOKU)
    for walk in (solve_a_typed_puzzle, keep_the_digits, stop_within_a_step, race_two_models):
        walk(qtbot, window)
        window.context.values.speed = FULL_SPEED
        window.context.apply_values()


def test_a_photographed_puzzle_lands_on_the_board(
    qtbot: QtBot, window_with: Callable[[str], MainWindow], tmp_path: Path
) -> None:
    window = window_with(MODEL)
    window.show_page(SUDOKU)
    page = window.pages["sudoku"]
    one, model, before = page.page, window.context.model, page.page.puzzle
    rng = random.Random(7)
    board = sudoku.generate(rng, 30, 40, held_out=True).board
    shown, plain = tmp_path / "puzzle.png", tmp_path / "plain.png"
    Image.fromarray(photograph(rng, board, 500).pixels).save(shown)
    Image.fromarray(np.full((300, 300, 3), 250, dtype=np.uint8)).save(plain)

    page.read_picture(str(plain))
    qtbot.waitUntil(lambda: not page.is_busy, timeout=RUN_MS)
    assert "could not be read from the picture" in one.column.check.text() or "No Sudoku" in one.column.check.text()
    assert one.puzzle == before
    page.read_picture(str(shown))
    qtbot.waitUntil(lambda: not page.is_busy, timeout=RUN_MS)
    misread = [cell for cell in range(81) if one.puzzle[cell] != board[cell]]
    assert len(misread) <= MAX_MISREAD
    assert len(one.board.doubts) <= 20
    assert window.context.model is model
    one.board.undo()
    assert one.puzzle == before
