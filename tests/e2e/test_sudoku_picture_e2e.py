"""A rendered picture of a held-out puzzle, read by the embedded model in the real window; and one of no puzzle."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from pytestqt.qtbot import QtBot

from app.context import SUDOKU
from app.window.main_window import MainWindow
from engine import SUDOKU as MODEL
from engine.tasks import sudoku
from tests.engine.small import photograph

RUN_MS = 180_000
MAX_MISREAD = 4  # cells of 81; the weights misread none of this picture, and one in a hundred of all


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
