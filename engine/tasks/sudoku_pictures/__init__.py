"""Reading a Sudoku from a picture, row by row: what is asked, what the answers say, and pictures to ask about.

A caller asks all of ``ROW_QUESTIONS`` about one picture, which is then read once, and gets rows and doubts from
``reading``. Boards are those of ``sudoku``. Held-out pictures show puzzles of the ``sudoku`` test split; those of
training show digits at random.
"""

from __future__ import annotations

import random

from engine.errors import SafelightError, Sentence
from engine.tasks import sudoku

ROW_QUESTIONS = tuple(f"What is in row {row} of the Sudoku?" for row in range(1, 10))
"""From the topmost row to the lowest."""
IMAGE_TOKENS = 280
"""The budget of a picture that is asked about: a cell of the grid is then almost two soft tokens wide."""
EMPTY = "."


def answer(board: str, row: int) -> str:
    """The right answer to a row's question, rows from 0: nine characters, dots for empty cells."""
    return board[9 * row : 9 * row + 9].replace("0", EMPTY)


def row_of(answer: str, number: int) -> str:
    """The nine characters that the answer to a row's question tells, rows from 1.

    It is not checked for contradictions: a digit may have been misread.

    Raises:
        SafelightError: it is not a row.
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
    """Digits at random in a random share of the cells."""
    share = rng.uniform(0.25, 0.9)
    return "".join(rng.choice(sudoku.DIGITS) if rng.random() < share else "0" for _ in range(sudoku.SIZE))
