"""Reads a Sudoku from a picture, row by row: the questions and their answers.

A caller asks all of ``ROW_QUESTIONS`` about one picture, which is encoded only once, and makes a ``ReadBoard``. Boards
are those of ``sudoku``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import SafelightError, Sentence
from engine.tasks import sudoku

ROW_QUESTIONS = tuple(f"What is in row {row} of the Sudoku?" for row in range(1, 10))
"""Questions from the top row to the bottom row."""
IMAGE_TOKENS = 280
"""The soft tokens of a picture: a cell of the grid is then almost two soft tokens wide."""
EMPTY = "."
DOUBT = 0.98
"""Cells read with less probability are in doubt: three of a held-out picture, among them 4 of 5 misread cells."""
MAX_DOUBTS = 40
"""A picture with more doubtful cells has no grid that the model could read."""


@dataclass(frozen=True)
class ReadRow:
    """Nine digits, 0 for an empty cell, and the probability of each."""

    cells: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class ReadBoard:
    """A board of 81 digits, 0 for an empty cell, which may contradict each other, and the cells in doubt."""

    cells: str
    doubts: tuple[int, ...]

    @staticmethod
    def from_rows(rows: Sequence[ReadRow]) -> ReadBoard:
        """Makes a board of the rows read so far; those below are empty."""
        read = [probability for row in rows for probability in row.probabilities]
        doubts = tuple(cell for cell, probability in enumerate(read) if probability < DOUBT)
        return ReadBoard("".join(row.cells for row in rows).ljust(sudoku.SIZE, "0"), doubts)

    def checked(self) -> ReadBoard:
        """Returns the board, if a grid was read.

        Raises:
            SafelightError: it has no digits, or most of it is in doubt.
        """
        if len(self.doubts) > MAX_DOUBTS or not sudoku.givens(self.cells):
            raise SafelightError(
                Sentence("No Sudoku could be read from the picture; choose one that shows a single printed grid.")
            )
        return self


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
