"""The puzzle being entered: a board of 81 cells, and an entry with a cursor and a history. Knows neither Qt nor torch.

What is wrong with a board is said in one sentence. The solver serves these sentences and never helps the model.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from app.system.i18n import tr, trn
from engine.tasks import sudoku
from engine.tasks.sudoku import GIVENS, Bin

SIZE = sudoku.SIZE
BLANK = "0"
HISTORY = 200
"""Changes that can be undone."""
FEWEST_UNIQUE = 17
"""No puzzle with fewer givens has a single solution."""

_PATIENCE = 1000  # guesses of the solver, a tenth of a second; puzzles people pose take a few dozen


@dataclass(frozen=True)
class Board:
    """81 cells, row by row, ``0`` for a blank. Cells may contradict each other while they are being entered."""

    cells: str = BLANK * SIZE

    def __post_init__(self) -> None:
        if len(self.cells) != SIZE or any(cell not in "0123456789" for cell in self.cells):
            raise ValueError(f"a board is 81 digits, 0 for a blank, not {self.cells!r}")

    def __getitem__(self, cell: int) -> str:
        return self.cells[cell]

    def with_digit(self, cell: int, digit: str) -> Board:
        """The board with another digit in a cell; ``0`` clears it."""
        return self if self.cells[cell] == digit else Board(self.cells[:cell] + digit + self.cells[cell + 1 :])

    @property
    def givens(self) -> int:
        """Filled cells."""
        return sudoku.givens(self.cells)

    @property
    def is_empty(self) -> bool:
        return self.givens == 0

    @property
    def bin(self) -> Bin:
        """``easy`` (40 givens or more), ``medium`` (30 to 39) or ``hard`` (fewer)."""
        return sudoku.bin_of(self.cells)

    @cached_property
    def conflicts(self) -> tuple[tuple[int, int], ...]:
        """Pairs of cells that hold one digit in a row, column or box."""
        return tuple(sudoku.conflicts(self.cells))

    def text(self) -> str:
        """81 characters with ``.`` for a blank, as most programs read it."""
        return self.cells.replace(BLANK, ".")

    def lines(self) -> str:
        """Nine lines of nine characters with ``.`` for a blank."""
        return sudoku.rows(self.text())


EMPTY = Board()


# --- entering ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoardEntry:
    """A board with a cursor, and what it was before. Every change gives another entry."""

    board: Board = EMPTY
    cursor: int = 0
    past: tuple[tuple[Board, int], ...] = ()  # boards with the cursor they had, the latest last
    future: tuple[tuple[Board, int], ...] = ()  # what was undone, the latest undone last

    def put(self, digit: str) -> BoardEntry:
        """Write a digit at the cursor; ``0`` clears. Raises ValueError for anything else."""
        return self.replace(self.board.with_digit(self.cursor, digit))

    def clear(self) -> BoardEntry:
        """Empty the cell at the cursor."""
        return self.put(BLANK)

    def clear_all(self) -> BoardEntry:
        """Empty the board."""
        return self.replace(EMPTY)

    def replace(self, board: Board) -> BoardEntry:
        """Take another board, in one change."""
        if board == self.board:
            return self
        return BoardEntry(board, self.cursor, (*self.past, (self.board, self.cursor))[-HISTORY:])

    def go(self, cell: int) -> BoardEntry:
        """Set the cursor on a cell; outside the board nothing happens."""
        if not 0 <= cell < SIZE or cell == self.cursor:
            return self
        return BoardEntry(self.board, cell, self.past, self.future)

    def move(self, columns: int, rows: int) -> BoardEntry:
        """Move the cursor; it stops at the edges."""
        row, column = divmod(self.cursor, 9)
        return self.go(9 * min(max(row + rows, 0), 8) + min(max(column + columns, 0), 8))

    @property
    def can_undo(self) -> bool:
        return bool(self.past)

    @property
    def can_redo(self) -> bool:
        return bool(self.future)

    def undo(self) -> BoardEntry:
        """Take back the latest change; the cursor goes to where it was made."""
        if not self.past:
            return self
        board, cursor = self.past[-1]
        return BoardEntry(board, cursor, self.past[:-1], (*self.future, (self.board, cursor)))

    def redo(self) -> BoardEntry:
        """Make the change again that was undone last."""
        if not self.future:
            return self
        board, cursor = self.future[-1]
        return BoardEntry(board, cursor, (*self.past, (self.board, cursor)), self.future[:-1])


# --- what is wrong with it -----------------------------------------------------------------------------------------

CheckKind = Literal["empty", "contradiction", "few", "none", "many", "one", "full", "unsettled"]


@dataclass(frozen=True)
class BoardCheck:
    """How a board stands as a puzzle."""

    kind: CheckKind
    text: str  # one sentence, in the user's language

    @property
    def runs(self) -> bool:
        """Whether it makes sense to give it to a model."""
        return self.kind in ("one", "many", "few", "unsettled")

    @property
    def is_sound(self) -> bool:
        """Whether it is a puzzle as it should be: with one solution."""
        return self.kind == "one"


def check(board: Board) -> BoardCheck:
    """Say whether a board is a puzzle, and what to change where it is not. At most some tenths of a second."""
    givens = board.givens
    if not givens:
        return BoardCheck("empty", tr("Type or paste a puzzle, or generate one."))
    if board.conflicts:
        return BoardCheck("contradiction", contradiction(board))
    if givens == SIZE:
        return BoardCheck("full", tr("The board is full: clear some cells, so that there is something to solve."))
    found = solutions(board.cells)
    if found is not None and not found:
        return BoardCheck("none", tr("This puzzle has no solution: change or clear a digit."))
    if givens < FEWEST_UNIQUE:
        text = trn(
            "Too few givens ({count}) for a single solution, which takes 17 or more; any valid grid will do.",
            "Too few givens ({count}) for a single solution, which takes 17 or more; any valid grid will do.",
            givens,
        )
        return BoardCheck("few", text)
    if found is None:
        return BoardCheck("unsettled", tr("The solver gave up before it knew whether there is a single solution."))
    if len(found) > 1:
        return BoardCheck("many", tr("This puzzle has more than one solution: add a given for a single one."))
    return BoardCheck("one", tr("One solution, {givens} givens: {bin}.", givens=givens, bin=bin_name(board.bin)))


def contradiction(board: Board) -> str:
    """The first contradiction in words; the board has one."""
    a, b = board.conflicts[0]
    digit = board[a]
    if a // 9 == b // 9:
        return tr("{digit} stands twice in row {row}: clear one of them.", digit=digit, row=a // 9 + 1)
    if a % 9 == b % 9:
        return tr("{digit} stands twice in column {column}: clear one of them.", digit=digit, column=a % 9 + 1)
    box = 3 * (a // 27) + a % 9 // 3 + 1
    return tr("{digit} stands twice in box {box}: clear one of them.", digit=digit, box=box)


def bin_name(bin: str) -> str:
    """A bin in the user's language. Raises KeyError for what is none."""
    return {"easy": tr("easy"), "medium": tr("medium"), "hard": tr("hard")}[bin]


@lru_cache(maxsize=256)
def solutions(cells: str) -> tuple[str, ...] | None:
    """Up to two solutions of a board of 81 digits; None where the solver gave up."""
    try:
        return tuple(sudoku.solutions(cells, 2, guesses=_PATIENCE))
    except sudoku.TooManyGuessesError:
        return None


# --- making --------------------------------------------------------------------------------------------------------


def generate(bin: Bin, rng: random.Random | None = None) -> Board:
    """A fresh puzzle with one solution, of the grids that no model here was trained on.

    Takes from some hundredths of a second to a second or two (hard).
    """
    givens = GIVENS[bin]
    return Board(sudoku.generate(rng or random.Random(), givens.low, givens.high, held_out=True).board)
