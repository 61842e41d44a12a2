"""Finds a Sudoku in what was asked and in what was written. Decides by the texts alone, whoever wrote them. No Qt."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from app.state.run.canvas import BlockState
from app.state.sudoku.board import BLANK, EMPTY, SIZE
from app.state.sudoku.solve_frame import POSITIONS
from engine.tasks import sudoku

MOST_TEXT = 20_000
"""Characters beyond which a text is not searched."""
LEAST_CELLS = 5
"""Of the nine signs of a row, those that must be digits or blanks."""
_BLANKS = frozenset("0._*")
_DIGITS = frozenset(sudoku.DIGITS)
_CELLS = _BLANKS | _DIGITS
_BETWEEN = frozenset("|-+=")


class WrittenGrid(NamedTuple):
    """Nine rows of nine cells in a text."""

    signs: str  # 81 of them
    offsets: tuple[int, ...]  # where each stands in the text
    is_alone: bool  # the text holds nothing else

    @property
    def answer(self) -> str:
        """As it is judged: ``.`` where no digit is."""
        return "".join(sign if sign in _DIGITS else "." for sign in self.signs)


class Placed(NamedTuple):
    """A puzzle, and where on a canvas each of its 81 cells is written."""

    puzzle: str  # 81 digits, 0 for a blank
    positions: tuple[int, ...]


class Answered(NamedTuple):
    """A puzzle, and the grid that was written as its answer."""

    puzzle: str  # 81 digits, 0 for a blank
    grid: WrittenGrid


@lru_cache(maxsize=64)
def grid_in(text: str) -> WrittenGrid | None:
    """The last grid of a text: nine lines of nine cells, or one of 81; spaces and drawn lines may part them."""
    if len(text) > MOST_TEXT:
        return None
    found: list[tuple[int, str]] = []
    last: list[tuple[int, str]] = []
    is_alone, start = True, 0
    for line in text.splitlines(keepends=True):
        signs = [(start + at, sign) for at, sign in enumerate(line) if not (sign.isspace() or sign in _BETWEEN)]
        start += len(line)
        cells = sum(sign in _CELLS for _, sign in signs)
        if len(signs) == 9 and cells >= LEAST_CELLS:
            found += signs
        elif len(signs) == SIZE and cells >= 9 * LEAST_CELLS:
            found = signs
        elif signs:
            is_alone, found = False, []
        if len(found) == SIZE:
            is_alone &= not last
            last, found = found, []
    if not last:
        return None
    offsets, signs_ = zip(*last, strict=True)
    return WrittenGrid("".join(signs_), offsets, is_alone and not found)


def puzzle_in(text: str) -> str | None:
    """The puzzle of a prompt, 81 digits with 0 for a blank; None where it has none that could be solved."""
    grid = grid_in(text)
    if grid is None or not set(grid.signs) <= _CELLS:
        return None
    puzzle = "".join(BLANK if sign in _BLANKS else sign for sign in grid.signs)
    return puzzle if 0 < sudoku.givens(puzzle) < SIZE and not sudoku.conflicts(puzzle) else None


def is_puzzle(text: str) -> bool:
    """Whether a prompt is a puzzle and nothing else."""
    grid = grid_in(text)
    return grid is not None and grid.is_alone and puzzle_in(text) is not None


def answered(prompt: str, text: str) -> Answered | None:
    """What an answer is to be shown as: the puzzle that was asked, and the grid that was written.

    Where no puzzle was asked, only a grid without fault counts, of no givens: nine rows of digits may be anything else.
    """
    grid = grid_in(text)
    if grid is None:
        return None
    puzzle = puzzle_in(prompt)
    if puzzle is None and sudoku.judge(EMPTY.cells, grid.answer).valid:
        puzzle = EMPTY.cells
    return None if puzzle is None else Answered(puzzle, grid)


def placed(prompt: str, block: BlockState, piece: Callable[[int], str]) -> Placed | None:
    """Where a block writes a Sudoku; None where it does not, or not in a token a cell.

    Once it is committed this is read from what it wrote. Until then a prompt that is a puzzle and nothing else gets
    its answer line by line from the first position on, unless the draft says otherwise.
    """
    if block.committed:
        pieces = [piece(token) for token in block.shown[: block.text_length].tolist()]
        found = answered(prompt, "".join(pieces))
        if found is None:
            return None
        ends = list(accumulate(map(len, pieces)))
        positions = _positions(ends, found.grid.offsets)
        return Placed(found.puzzle, positions) if len(set(positions)) == SIZE else None
    puzzle = puzzle_in(prompt)
    if puzzle is None or not is_puzzle(prompt) or block.length <= POSITIONS[-1]:
        return None
    return Placed(puzzle, POSITIONS) if _may_be_grid(block, piece) else None


def _positions(ends: list[int], offsets: tuple[int, ...]) -> tuple[int, ...]:
    """The piece that each offset lies in, by where pieces end; both go upwards."""
    found, position = [], 0
    for offset in offsets:
        while ends[position] <= offset:
            position += 1
        found.append(position)
    return tuple(found)


def _may_be_grid(block: BlockState, piece: Callable[[int], str]) -> bool:
    """Whether the draft, if there is one, has digits in most cells."""
    if block.argmax_canvas is None:
        return True
    draft = block.argmax_canvas.tolist()
    return 2 * sum(piece(draft[place]).strip() in _DIGITS for place in POSITIONS) > SIZE
