"""A picture cut into square cells: what each holds, and which of them decide a question."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.tasks.drawings.drawing import digit_edges
from engine.tasks.drawings.rules import solve
from engine.tasks.drawings.scene import COLOURS, SHAPES, Scene

CELL_KINDS = (*SHAPES, *"0123456789")
FIRST, DIGITS = 32, 5  # a bit of ``deciding_cells``, and how many there are below it


class Thing(NamedTuple):
    """A shape or a digit: around (x, y), as far as ``wide`` and ``high`` to each side."""

    kind: str
    colour: str
    x: float
    y: float
    wide: float
    high: float

    def cell(self, per_side: int) -> tuple[int, int]:
        """Row and column of its middle."""
        return int(self.y * per_side), int(self.x * per_side)


def things(scene: Scene) -> list[Thing]:
    """All in a scene: its shapes, or the digits of its number."""
    found = [Thing(s.kind, s.colour, s.x, s.y, 0.75 * s.radius, 0.75 * s.radius) for s in scene.shapes]
    if (number := scene.number) is not None:
        edges = digit_edges(number)
        for digit, left, right in zip(number.text, edges, edges[1:], strict=False):
            wide, high = (right - left) / 2, 0.36 * number.height
            found.append(Thing(digit, number.colour, (left + right) / 2, number.y, wide, high))
    return found


def cells(scene: Scene, per_side: int) -> NDArray[np.uint8]:
    """What each of ``per_side`` times as many cells holds, row by row: (cells, 3).

    The place of what covers its middle in ``CELL_KINDS`` and of its colour in ``COLOURS``, both from 1 and 0 for none,
    and whether the middle of that thing is in the cell.
    """
    found = np.zeros((per_side, per_side, 3), dtype=np.uint8)
    middles = (np.arange(per_side) + 0.5) / per_side
    for thing in things(scene):
        covered = (np.abs(middles[:, None] - thing.y) <= thing.high) & (np.abs(middles - thing.x) <= thing.wide)
        covered[thing.cell(per_side)] = True
        found[covered, 0] = 1 + CELL_KINDS.index(thing.kind)
        found[covered, 1] = 1 + list(COLOURS).index(thing.colour)
        found[(*thing.cell(per_side), 2)] = 1
    return found.reshape(-1, 3)


def deciding_cells(scene: Scene, question: str, per_side: int) -> NDArray[np.uint8]:
    """Which cells hold the middle of what decides a question, as bits (cells,).

    Bit n is set where the n-th character of the answer is seen: digit by digit of a number, else all alike. ``FIRST``:
    what has to be found before, the shape that the question is about the side of.
    """
    found = np.zeros((per_side, per_side), dtype=np.uint8)
    solved = solve(scene, question)
    if solved is not None:
        for place, thing in enumerate(things(scene)):
            if scene.number is not None:
                found[thing.cell(per_side)] |= 1 << place if solved.kind == "number" else FIRST - 1
                continue
            found[thing.cell(per_side)] |= (FIRST - 1) * (place in solved.seen) | FIRST * (place in solved.first)
    return found.reshape(-1)
