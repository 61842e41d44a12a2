"""Finds a Sudoku in a prompt and in its answer, from the texts alone and for any model. Knows no Qt."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from app.state.run.canvas import BlockState
from app.state.sudoku.board import BLANK, EMPTY, SIZE, Board
from app.state.sudoku.solve_frame import POSITIONS
from engine.tasks import sudoku

MAX_GRID_CHARACTERS = 20_000
"""Longer texts, in characters, are not searched."""
LEAST_CELLS = 5
"""The number of a row's nine signs that must be digits or blanks."""
_BLANKS = frozenset("0._*")
_DIGITS = frozenset(sudoku.DIGITS)
_CELLS = _BLANKS | _DIGITS
_BETWEEN = frozenset("|-+=")


class WrittenGrid(NamedTuple):
    """Nine rows of nine cells in a text."""

    signs: str  # 81 characters
    offsets: tuple[int, ...]  # of each sign in the text
    is_alone: bool  # the text contains only the grid

    @property
    def answer(self) -> str:
        """The grid for the judge: 81 characters, ``.`` for every sign that is not a digit."""
        return "".join(sign if sign in _DIGITS else "." for sign in self.signs)


class Placed(NamedTuple):
    """A puzzle, and the canvas positions of its 81 cells."""

    puzzle: str  # 81 digits, 0 for a blank
    positions: tuple[int, ...]


class Answered(NamedTuple):
    """A puzzle, and the grid written as its answer."""

    puzzle: str  # 81 digits, 0 for a blank
    grid: WrittenGrid


@lru_cache(maxsize=64)
def grid_in(text: str) -> WrittenGrid | None:
    """Returns the last grid of a text: nine lines of nine cells, or one of 81; spaces and rulers may separate them."""
    if len(text) > MAX_GRID_CHARACTERS:
        return None
    grid: list[tuple[int, str]] = []
    last: list[tuple[int, str]] = []
    is_alone, start = True, 0
    for line in text.splitlines(keepends=True):
        signs = [(start + at, sign) for at, sign in enumerate(line) if not (sign.isspace() or sign in _BETWEEN)]
        start += len(line)
        cells = sum(sign in _CELLS for _, sign in signs)
        if len(signs) == 9 and cells >= LEAST_CELLS:
            grid += signs
        elif len(signs) == SIZE and cells >= 9 * LEAST_CELLS:
            grid = signs
        elif signs:
            is_alone, grid = False, []
        if len(grid) == SIZE:
            is_alone &= not last
            last, grid = grid, []
    if not last:
        return None
    offsets, signs_ = zip(*last, strict=True)
    return WrittenGrid("".join(signs_), offsets, is_alone and not grid)


def board_in(text: str) -> Board | None:
    """Returns the grid of digits and blanks in a text, which may be in conflict; None if there is none."""
    grid = grid_in(text)
    if grid is None or not set(grid.signs) <= _CELLS:
        return None
    return Board("".join(BLANK if sign in _BLANKS else sign for sign in grid.signs))


def puzzle_in(text: str) -> str | None:
    """Returns the puzzle of a prompt, 81 digits with 0 for a blank.

    None if there is none, or if it is empty, full or in conflict.
    """
    board = board_in(text)
    return board.cells if board is not None and 0 < board.givens < SIZE and not board.conflicts else None


def is_puzzle(text: str) -> bool:
    """True if a prompt is a puzzle and nothing else."""
    grid = grid_in(text)
    return grid is not None and grid.is_alone and puzzle_in(text) is not None


def answered(prompt: str, text: str) -> Answered | None:
    """Returns the puzzle of a prompt with the grid in its answer; None if there is no grid to show.

    If the prompt has no puzzle, only a valid solved grid counts, with an empty puzzle: other rows of digits may mean
    something else.
    """
    grid = grid_in(text)
    if grid is None:
        return None
    puzzle = puzzle_in(prompt)
    if puzzle is None and sudoku.judge(EMPTY.cells, grid.answer).valid:
        puzzle = EMPTY.cells
    return None if puzzle is None else Answered(puzzle, grid)


def placed(prompt: str, block: BlockState, piece: Callable[[int], str]) -> Placed | None:
    """Returns the positions at which a block writes a Sudoku; None if it writes none, or cells share a token.

    After the commit they are read from the text. Until then they are expected only if the prompt is a puzzle and
    nothing else: line by line from the first position on, unless the draft shows other text there.
    """
    if block.committed:
        pieces = [piece(token) for token in block.shown[: block.text_length].tolist()]
        written = answered(prompt, "".join(pieces))
        if written is None:
            return None
        ends = list(accumulate(map(len, pieces)))
        positions = _positions(ends, written.grid.offsets)
        return Placed(written.puzzle, positions) if len(set(positions)) == SIZE else None
    puzzle = puzzle_in(prompt)
    if puzzle is None or not is_puzzle(prompt) or block.length <= POSITIONS[-1]:
        return None
    return Placed(puzzle, POSITIONS) if _may_be_grid(block, piece) else None


def _positions(ends: list[int], offsets: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the index of the piece that each offset lies in; ``ends`` of pieces and ``offsets`` both rise."""
    indices, position = [], 0
    for offset in offsets:
        while ends[position] <= offset:
            position += 1
        indices.append(position)
    return tuple(indices)


def _may_be_grid(block: BlockState, piece: Callable[[int], str]) -> bool:
    """True if there is no draft yet, or if it has digits in most cells."""
    if block.argmax_canvas is None:
        return True
    draft = block.argmax_canvas.tolist()
    return 2 * sum(piece(draft[place]).strip() in _DIGITS for place in POSITIONS) > SIZE
