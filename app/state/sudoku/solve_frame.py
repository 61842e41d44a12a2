"""The content of a board at one frame of a run: digits, pencil marks, noise, conflicts, changed givens, the verdict.

It is computed from a ``BlockState`` of the common reducer. Knows neither Qt nor torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.state.run.canvas import BlockState, CellState
from app.state.sudoku.board import BLANK, SIZE, SolveVerdict, verdict
from engine.tasks import sudoku

POSITIONS: tuple[int, ...] = tuple(10 * (cell // 9) + cell % 9 for cell in range(SIZE))
"""Canvas positions of the cells: nine lines of nine tokens with a line break after each."""

DOMINATES = 0.5
"""A candidate with this probability or more is shown as the cell's digit before it is accepted."""
LEAST_MARK = 0.02
"""Less likely digits have no pencil mark."""

_DIGITS = frozenset(sudoku.DIGITS)
_FIRM = (CellState.ACCEPTED, CellState.SETTLED, CellState.GIVEN)


class PencilMark(NamedTuple):
    """A pencil mark: a digit with its probability in the model."""

    digit: str
    probability: float


class ShownCell(NamedTuple):
    """One cell of the board at a frame."""

    state: CellState  # of its position on the canvas; GIVEN only if it was pinned
    text: str  # text of the token there, noise included; "" for none
    digit: str  # the digit shown large: accepted, or a best guess that dominates; "" for none
    given: str  # the puzzle's digit; "" for a blank
    marks: tuple[PencilMark, ...]  # likeliest first; empty if the run does not report probabilities
    entropy: float | None  # nats; None before the first step
    times_taken_back: int
    in_conflict: bool  # another cell of its row, column or box shows the same digit
    violated: bool  # the model writes another digit than the puzzle's given
    wrong: bool  # in the verdict


@dataclass(frozen=True, eq=False)
class SolveFrame:
    """A board at one frame."""

    puzzle: str  # 81 digits, 0 for a blank
    cells: tuple[ShownCell, ...]
    conflicts: tuple[tuple[int, int], ...]  # pairs of cells that show equal digits in a row, column or box
    started: bool  # False if there is only a puzzle and no run
    step: int  # the latest finished step, counted from 0; -1 before the first
    entropy: float | None  # mean over the board's cells, nats; None before the first step
    accepted: int  # cells accepted at this step, of 81
    committed: bool
    verdict: SolveVerdict | None  # once committed

    @property
    def steps(self) -> int:
        """Finished denoising steps."""
        return self.step + 1

    @cached_property
    def answer(self) -> str:
        """The written grid, 81 characters, ``.`` for a cell without a digit."""
        return "".join(cell.text if cell.text in _DIGITS else "." for cell in self.cells)

    @cached_property
    def violated(self) -> tuple[int, ...]:
        """The cells whose given the model has changed."""
        return tuple(index for index, cell in enumerate(self.cells) if cell.violated)


def entered(puzzle: str) -> SolveFrame:
    """Returns a board without a run: its digits are givens, and its conflicts are shown."""
    cells, pairs = _cells(puzzle, [CellState.NOISE] * SIZE, [""] * SIZE, [""] * SIZE, None)
    return SolveFrame(puzzle, cells, pairs, False, -1, None, 0, False, None)


def settled(puzzle: str, answer: str) -> SolveFrame:
    """Returns a board with a finished answer of 81 characters (``.`` for no digit) and no data about its run."""
    said = verdict(puzzle, answer)
    digits = [sign if sign in _DIGITS else "" for sign in answer]
    cells, pairs = _cells(puzzle, [CellState.SETTLED] * SIZE, digits, digits, said)
    return SolveFrame(puzzle, cells, pairs, True, -1, None, 0, True, said)


def frame(
    puzzle: str,
    block: BlockState | None,
    piece: Callable[[int], str],
    positions: Sequence[int] = POSITIONS,
) -> SolveFrame:
    """Returns the board for the state of a canvas; without a block, the puzzle alone.

    Args:
        piece: returns the text of a token (``Trace.piece``).
        positions: the canvas position of each of the 81 cells; a cell with a position outside the canvas is empty.
    """
    if block is None:
        return entered(puzzle)

    def written(token: int) -> str:
        text = piece(token)
        return bare if (bare := text.strip()) in _DIGITS else text  # a digit may come with its space

    places = [place if place < block.length else -1 for place in positions]
    states, texts = _on_canvas(block, written, places)
    marks = _marks(block, written, places)
    digits = [_digit(block, state, text, mark) for state, text, mark in zip(states, texts, marks, strict=True)]
    if block.top_tokens is None:
        digits = _guesses(block, written, places, states, digits)
    said = verdict(puzzle, "".join(text if text in _DIGITS else "." for text in texts)) if block.committed else None
    entropy = _of_cells(block.known_entropy, places)
    times_taken_back = [int(count or 0) for count in _of_cells(block.times_taken_back, places)]
    cells, pairs = _cells(puzzle, states, texts, digits, said, marks, entropy, times_taken_back)
    known = [value for value in entropy if value is not None]
    inside = [place for place in places if place >= 0]
    return SolveFrame(
        puzzle,
        cells,
        pairs,
        True,
        block.step,
        sum(known) / len(known) if known else None,
        int(block.accepted_mask[inside].sum()),
        block.committed,
        said,
    )


def _cells(
    puzzle: str,
    states: Sequence[CellState],
    texts: Sequence[str],
    digits: Sequence[str],
    said: SolveVerdict | None,
    marks: Sequence[tuple[PencilMark, ...]] = ((),) * SIZE,
    entropy: Sequence[float | None] = (None,) * SIZE,
    times_taken_back: Sequence[int] = (0,) * SIZE,
) -> tuple[tuple[ShownCell, ...], tuple[tuple[int, int], ...]]:
    """Returns the cells and the pairs of cells in conflict; ``said`` is the verdict on a finished answer."""
    givens = [given.strip(BLANK) for given in puzzle]
    shown = "".join(digit or given or BLANK for digit, given in zip(digits, givens, strict=True))
    pairs = tuple(sudoku.conflicts(shown))
    clashing = {cell for pair in pairs for cell in pair}
    wrong = frozenset(said.wrong) if said is not None else frozenset()
    cells = []
    for cell, (state, text, digit, given) in enumerate(zip(states, texts, digits, givens, strict=True)):
        if state in (CellState.NOISE, CellState.MASKED) and digit:
            state = CellState.CANDIDATE
        changed = given != "" and (text != given if said is not None else digit not in ("", given))
        figures = (marks[cell], entropy[cell], times_taken_back[cell])
        cells.append(ShownCell(state, text, digit, given, *figures, cell in clashing, changed, cell in wrong))
    return tuple(cells), pairs


def _on_canvas(
    block: BlockState, piece: Callable[[int], str], places: Sequence[int]
) -> tuple[list[CellState], list[str]]:
    """Returns the state of every cell's position, and the text of its token."""
    states, tokens = block.states(calm=False).tolist(), block.shown.tolist()
    written = {token: piece(token) for token in {tokens[place] for place in places if place >= 0}}
    padding, empty = CellState.PADDING, (CellState.PADDING, CellState.MASKED)
    return (
        [_STATES[states[place]] if place >= 0 else padding for place in places],
        ["" if place < 0 or states[place] in empty else written[tokens[place]] for place in places],
    )


_STATES = tuple(CellState)


def _digit(block: BlockState, state: CellState, text: str, marks: tuple[PencilMark, ...]) -> str:
    """Returns the digit that a cell shows large; "" for none."""
    if block.committed or state in _FIRM:
        return text if text in _DIGITS else ""
    return marks[0].digit if marks and marks[0].probability >= DOMINATES else ""


def _guesses(
    block: BlockState,
    piece: Callable[[int], str],
    places: Sequence[int],
    states: Sequence[CellState],
    digits: Sequence[str],
) -> list[str]:
    """Returns the digits with the argmax in cells that are not accepted; for runs that report no probabilities."""
    if block.argmax_canvas is None or block.committed:
        return list(digits)
    best = block.argmax_canvas.tolist()
    guesses = []
    for place, state, digit in zip(places, states, digits, strict=True):
        guess = piece(best[place]) if place >= 0 and state not in _FIRM else digit
        guesses.append(guess if guess in _DIGITS else "")
    return guesses


def _marks(block: BlockState, piece: Callable[[int], str], places: Sequence[int]) -> list[tuple[PencilMark, ...]]:
    """Returns the pencil marks of every cell, likeliest first."""
    if block.top_tokens is None or block.top_probabilities is None or block.committed:
        return [()] * SIZE
    pencil_marks: list[list[PencilMark]] = [[] for _ in range(SIZE)]
    inside = [cell for cell, place in enumerate(places) if place >= 0]
    rows = [places[cell] for cell in inside]
    tokens, shares = block.top_tokens[rows], block.top_probabilities[rows]
    which, rank = np.nonzero(shares >= LEAST_MARK)
    tokens_kept, shares_kept = tokens[which, rank].tolist(), shares[which, rank].tolist()
    written = {token: piece(token) for token in set(tokens_kept)}
    for row, token, share in zip(which.tolist(), tokens_kept, shares_kept, strict=True):
        if written[token] in _DIGITS:
            pencil_marks[inside[row]].append(PencilMark(written[token], share))
    return [tuple(marks) for marks in pencil_marks]


def _of_cells(figures: NDArray[np.floating | np.integer] | None, places: Sequence[int]) -> list[float | None]:
    """Returns the figure of each cell from figures (C,) of positions; None if it is NaN or outside the canvas."""
    if figures is None:
        return [None] * SIZE
    values: list[float] = figures.tolist()
    return [values[place] if place >= 0 and values[place] == values[place] else None for place in places]  # not NaN
