"""The puzzle being entered: a board of 81 cells, and an entry with a cursor and a history. Knows neither Qt nor torch.

A problem of a board is reported in one sentence. The solver is used only for these sentences and does not help the
model.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from app.system.i18n import tr, trn
from engine.tasks import sudoku
from engine.tasks.sudoku import GIVENS, Bin

VerdictKind = Literal["solved", "other", "wrong", "incomplete"]


SIZE = sudoku.SIZE
BLANK = "0"
HISTORY = 200
"""The number of changes that can be undone."""
FEWEST_UNIQUE = 17
"""No puzzle with fewer givens has a single solution."""
_PATIENCE = 1000  # most guesses of the solver, about 0.1 s; published puzzles take a few dozen
CheckKind = Literal["empty", "contradiction", "few", "none", "many", "one", "full", "unsettled"]


@dataclass(frozen=True)
class SolveVerdict:
    """The solver's verdict on a finished run.

    *solved*: the puzzle's only solution. *other*: another valid grid, because the puzzle has several solutions or
    because givens were changed. *wrong*: digits in all cells, some of them wrong. *incomplete*: some cells have no
    digit.
    """

    kind: VerdictKind
    valid: bool  # a complete grid without conflicts that keeps every given; counts as solved
    text: str  # one sentence, in the user's language
    wrong: tuple[int, ...] = ()  # cells that differ from the solution, are in conflict, changed, or without a digit


@lru_cache(maxsize=256)
def verdict(puzzle: str, answer: str) -> SolveVerdict:
    """Judges an answer of 81 characters, ``.`` for a cell without a digit, against its puzzle."""
    judged = sudoku.judge(puzzle, answer)
    known = solutions(puzzle)
    if judged.valid:
        if known is None:
            return SolveVerdict("other", True, tr("Valid; it is not known if there is another solution."))
        if len(known) == 1:
            return SolveVerdict("solved", True, tr("Solved: the puzzle's only solution."))
        return SolveVerdict("other", True, tr("Valid: one of several solutions."))
    changed = {cell for cell in range(SIZE) if puzzle[cell] not in (BLANK, answer[cell])}
    missing = {cell for cell in range(SIZE) if answer[cell] not in sudoku.DIGITS}
    if not missing and not judged.conflicts:
        return SolveVerdict(
            "other",
            False,
            tr("A valid grid of another puzzle: {what}.", what=_changed(len(changed))),
            tuple(sorted(changed)),
        )
    if known is not None and len(known) == 1:
        against = {cell for cell in range(SIZE) if answer[cell] != known[0][cell]}
    else:
        against = changed | missing | {cell for pair in judged.conflicts for cell in pair if puzzle[cell] == BLANK}
    wrong, empty, parts = len(against - missing - changed), len(missing - changed), []
    if empty:
        parts.append(trn("{count} cell without a digit", "{count} cells without a digit", empty))
    if wrong and known is not None and len(known) == 1:
        said = "{count} of {blanks} blanks wrong"
        parts.append(trn(said, said, wrong, blanks=puzzle.count(BLANK)))
    elif wrong:
        parts.append(trn("{count} blank in conflict", "{count} blanks in conflict", wrong))
    parts += [_changed(len(changed))] if changed else []
    kind: VerdictKind = "incomplete" if missing else "wrong"
    return SolveVerdict(kind, False, tr("Not solved: {what}.", what=", ".join(parts)), tuple(sorted(against)))


def _changed(count: int) -> str:
    return trn("{count} given changed", "{count} givens changed", count)


@dataclass(frozen=True)
class Board:
    """81 cells, row by row, ``0`` for a blank. Cells may be in conflict while a puzzle is being entered."""

    cells: str = BLANK * SIZE

    def __post_init__(self) -> None:
        if len(self.cells) != SIZE or any(cell not in "0123456789" for cell in self.cells):
            raise ValueError(f"a board is 81 digits, 0 for a blank, not {self.cells!r}")

    def __getitem__(self, cell: int) -> str:
        return self.cells[cell]

    @property
    def givens(self) -> int:
        """The number of filled cells."""
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
        """The pairs of cells with equal digits in a row, column or box."""
        return tuple(sudoku.conflicts(self.cells))

    def text(self) -> str:
        """Returns 81 characters with ``.`` for a blank, a form that most programs read."""
        return self.cells.replace(BLANK, ".")


EMPTY = Board()


@dataclass(frozen=True)
class BoardEntry:
    """A board with a cursor and a history. It is immutable: each change returns a new entry."""

    board: Board = EMPTY
    cursor: int = 0
    past: tuple[tuple[Board, int], ...] = ()  # boards with the cursor they had, the latest last
    future: tuple[tuple[Board, int], ...] = ()  # undone changes, the latest last

    def put(self, digit: str) -> BoardEntry:
        """Writes a digit at the cursor; ``0`` clears. Raises ValueError for anything else."""
        cells = self.board.cells
        return self.replace(Board(cells[: self.cursor] + digit + cells[self.cursor + 1 :]))

    def clear_all(self) -> BoardEntry:
        return self.replace(EMPTY)

    def replace(self, board: Board) -> BoardEntry:
        if board == self.board:
            return self
        return BoardEntry(board, self.cursor, (*self.past, (self.board, self.cursor))[-HISTORY:])

    def go(self, cell: int) -> BoardEntry:
        """Moves the cursor to a cell; does nothing if the cell is outside the board."""
        if not 0 <= cell < SIZE or cell == self.cursor:
            return self
        return BoardEntry(self.board, cell, self.past, self.future)

    @property
    def can_undo(self) -> bool:
        return bool(self.past)

    @property
    def can_redo(self) -> bool:
        return bool(self.future)

    def undo(self) -> BoardEntry:
        """Undoes the latest change and moves the cursor to its place."""
        if not self.past:
            return self
        board, cursor = self.past[-1]
        return BoardEntry(board, cursor, self.past[:-1], (*self.future, (self.board, cursor)))

    def redo(self) -> BoardEntry:
        """Repeats the change that was undone last."""
        if not self.future:
            return self
        board, cursor = self.future[-1]
        return BoardEntry(board, cursor, (*self.past, (self.board, cursor)), self.future[:-1])


@dataclass(frozen=True)
class BoardCheck:
    """The result of checking a board as a puzzle."""

    kind: CheckKind
    text: str  # one sentence, in the user's language

    @property
    def runs(self) -> bool:
        """True if the board can be given to a model."""
        return self.kind in ("one", "many", "few", "unsettled")


def check(board: Board) -> BoardCheck:
    """Checks a board as a puzzle, with a sentence about what to change. Takes at most some tenths of a second."""
    givens = board.givens
    if not givens:
        return BoardCheck("empty", tr("Type or paste a puzzle, or generate one."))
    if board.conflicts:
        return BoardCheck("contradiction", contradiction(board))
    if givens == SIZE:
        return BoardCheck("full", tr("The board is full: clear some cells to solve them."))
    solved = solutions(board.cells)
    if solved is not None and not solved:
        return BoardCheck("none", tr("This puzzle has no solution: change or clear a digit."))
    if givens < FEWEST_UNIQUE:
        text = trn(
            "Too few givens ({count}) for a single solution, which takes 17 or more; any valid grid counts.",
            "Too few givens ({count}) for a single solution, which takes 17 or more; any valid grid counts.",
            givens,
        )
        return BoardCheck("few", text)
    if solved is None:
        return BoardCheck("unsettled", tr("It is not known if there is a single solution: checking took too long."))
    if len(solved) > 1:
        return BoardCheck("many", tr("This puzzle has more than one solution; more givens can make it unique."))
    return BoardCheck("one", tr("One solution, {givens} givens: {bin}.", givens=givens, bin=bin_name(board.bin)))


def contradiction(board: Board) -> str:
    """Returns the first conflict of a board as a sentence; the board must have one."""
    a, b = board.conflicts[0]
    digit = board[a]
    if a // 9 == b // 9:
        return tr("{digit} is twice in row {row}: clear one of them.", digit=digit, row=a // 9 + 1)
    if a % 9 == b % 9:
        return tr("{digit} is twice in column {column}: clear one of them.", digit=digit, column=a % 9 + 1)
    box = 3 * (a // 27) + a % 9 // 3 + 1
    return tr("{digit} is twice in box {box}: clear one of them.", digit=digit, box=box)


def bin_name(bin: str) -> str:
    """Returns a bin's name in the user's language. Raises KeyError for an unknown bin."""
    return {"easy": tr("easy"), "medium": tr("medium"), "hard": tr("hard")}[bin]


@lru_cache(maxsize=256)
def solutions(cells: str) -> tuple[str, ...] | None:
    """Returns up to two solutions of a board of 81 digits; None if the solver gave up."""
    try:
        return tuple(sudoku.solutions(cells, 2, guesses=_PATIENCE))
    except sudoku.TooManyGuessesError:
        return None


def generate(bin: Bin, rng: random.Random | None = None) -> Board:
    """Returns a new puzzle with one solution, from the grids held out of all training here.

    Takes from some hundredths of a second to two seconds (hard).
    """
    givens = GIVENS[bin]
    return Board(sudoku.generate(rng or random.Random(), givens.low, givens.high, held_out=True).board)
