"""Reads a Sudoku from a picture, row by row: the questions, their answers, and pictures to ask about.

A caller asks all of ``ROW_QUESTIONS`` about one picture, which is encoded only once, and gets rows and doubts from
``reading``. Boards are those of ``sudoku``. Held-out pictures show puzzles of the ``sudoku`` test split; training
pictures show random digits.
"""

from __future__ import annotations

import random

from engine.errors import SafelightError, Sentence
from engine.tasks import sudoku

ROW_QUESTIONS = tuple(f"What is in row {row} of the Sudoku?" for row in range(1, 10))
"""Questions from the top row to the bottom row."""
IMAGE_TOKENS = 280
"""The soft tokens of a picture: a cell of the grid is then almost two soft tokens wide."""
EMPTY = "."


def answer(board: str, row: int) -> str:
    """Returns the right answer to a row's question, rows from 0: nine characters, dots for empty cells."""
    return board[9 * row : 9 * row + 9].replace("0", EMPTY)


def row_of(answer: str, number: int) -> str:
    """Reads the nine characters in the answer to a row's question, rows from 1.

    They are not checked for contradictions: a digit may have been misread.

    Raises:
        SafelightError: the answer is not a row.
    """
    row = answer.strip()
    if len(row) != 9 or not set(row) <= {*sudoku.DIGITS, EMPTY}:
        raise SafelightError(
            Sentence(
                "Row {row} could not be read from the picture; choose one that shows a single printed grid.", row=number
            )
        )
    return row


def random_board(rng: random.Random) -> str:
    """Fills a random share of the cells with random digits."""
    share = rng.uniform(0.25, 0.9)
    return "".join(rng.choice(sudoku.DIGITS) if rng.random() < share else "0" for _ in range(sudoku.SIZE))
