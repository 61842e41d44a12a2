"""Photographed Sudokus: what is drawn stands where the labels say, and answers become a board again."""

from __future__ import annotations

import random

import numpy as np
import pytest

from engine.errors import SafelightError
from engine.tasks import sudoku_pictures
from engine.tasks.sudoku_pictures import ReadBoard, ReadRow
from small_models.sudoku_pictures import answer, photograph, random_board


def test_labels_and_ink_are_in_the_same_places() -> None:
    for seed in range(8):
        rng = random.Random(seed)
        place = rng.randrange(81)
        board = "".join("8" if place == cell else "0" for cell in range(81))
        picture = photograph(rng, board)
        labels = picture.labels(64, 64).reshape(64, 64, 4)
        middles = picture.middles(64, 64)
        assert [tuple(labels[middle][1:]) for middle in middles] == [(1 + n // 9, 1 + n % 9, 1) for n in range(81)]
        assert labels[middles[place]][0] == 8
        assert set(np.unique(labels[..., 0])) == {0, 8}
        assert labels[..., 3].sum() == 81
        high, wide = picture.pixels.shape[:2]
        around = [(y * high // 64, x * wide // 64) for y, x in middles]
        spread = [float(picture.pixels[y - 4 : y + 8, x - 4 : x + 8].std()) for y, x in around]  # dark next to light
        assert int(np.argmax(spread)) == place


def test_rows_make_a_board_with_its_doubts() -> None:
    board = random_board(random.Random(0))
    answers = [sudoku_pictures.row_of(f" {answer(board, row)}\n", row + 1) for row in range(9)]
    assert len(sudoku_pictures.ROW_QUESTIONS) == 9
    rows = [ReadRow(said.replace(".", "0"), (0.99,) * 8 + (0.5,)) for said in answers]
    read = ReadBoard.from_rows(rows).checked()
    assert (read.cells, read.doubts) == (board, tuple(range(8, 81, 9)))
    assert ReadBoard.from_rows(rows[:2]).cells == board[:18].ljust(81, "0")
    for bad in ("12345678", "1234567890", "12345678o", ""):
        with pytest.raises(SafelightError, match="Row 4 could not be read"):
            sudoku_pictures.row_of(bad, 4)
    for row in (ReadRow("0" * 9, (1.0,) * 9), ReadRow("123456789", (0.5,) * 9)):
        with pytest.raises(SafelightError, match="No Sudoku could be read"):
            ReadBoard.from_rows([row] * 9).checked()
