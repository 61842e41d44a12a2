"""A picture divided into cells: the content of each, and the cells that decide a question."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.tasks.drawings.drawing import font_of
from engine.tasks.drawings.scene import COLOURS, SHAPES, Number, Scene
from small_models.drawing_rules import solve

CELL_KINDS = (*SHAPES, *"0123456789")
FIRST = 1 << 9  # the bit of ``deciding_cells`` above those of an answer's characters


class Thing(NamedTuple):
    """A shape or a digit around (x, y); ``wide`` and ``high`` are half its size."""

    kind: str
    colour: str
    x: float
    y: float
    wide: float
    high: float


def things(scene: Scene) -> list[Thing]:
    """Returns everything in a scene: its shapes, or the digits of its number."""
    found = [Thing(s.kind, s.colour, s.x, s.y, 0.75 * s.radius, 0.75 * s.radius) for s in scene.shapes]
    if (number := scene.number) is not None:
        edges = digit_edges(number)
        for digit, left, right in zip(number.text, edges, edges[1:], strict=False):
            wide, high = (right - left) / 2, 0.36 * number.height
            found.append(Thing(digit, number.colour, (left + right) / 2, number.y, wide, high))
    return found


def cells(scene: Scene, rows: int, columns: int) -> NDArray[np.uint8]:
    """Returns the content of each cell, row by row, for a grid of ``rows`` by ``columns``: (cells, 3).

    The first two are the index in ``CELL_KINDS`` of the thing that covers the cell's middle and the index of its colour
    in ``COLOURS``, both from 1, and 0 for none. The third is 1 if the middle of that thing is in the cell.
    """
    found = np.zeros((rows, columns, 3), dtype=np.uint8)
    ys = (np.arange(rows) + 0.5) * (scene.height / rows)
    xs = (np.arange(columns) + 0.5) * (scene.width / columns)
    for thing in things(scene):
        middle = _cell(scene, thing, rows, columns)
        covered = (np.abs(ys[:, None] - thing.y) <= thing.high) & (np.abs(xs - thing.x) <= thing.wide)
        covered[middle] = True
        found[covered, 0] = 1 + CELL_KINDS.index(thing.kind)
        found[covered, 1] = 1 + list(COLOURS).index(thing.colour)
        found[(*middle, 2)] = 1
    return found.reshape(-1, 3)


def deciding_cells(scene: Scene, question: str, rows: int, columns: int) -> NDArray[np.int16]:
    """Returns the cells with the middle of a thing that decides a question, as bits (cells,).

    Bit n is set where the n-th character of the answer is seen: one bit per digit of a number, otherwise all of them.
    ``FIRST`` marks what must be found before: the shape whose side the question asks about.
    """
    found = np.zeros((rows, columns), dtype=np.int16)
    solved = solve(scene, question)
    if solved is not None:
        for place, thing in enumerate(things(scene)):
            cell = _cell(scene, thing, rows, columns)
            if scene.number is not None:
                found[cell] |= 1 << place if solved.kind == "number" else FIRST - 1
                continue
            found[cell] |= (FIRST - 1) * (place in solved.seen) | FIRST * (place in solved.first)
    return found.reshape(-1)


def _cell(scene: Scene, thing: Thing, rows: int, columns: int) -> tuple[int, int]:
    """Returns row and column of a thing's middle."""
    return int(thing.y / scene.height * rows), int(thing.x / scene.width * columns)


def digit_edges(number: Number) -> list[float]:
    """Returns the left edge of each digit of a number, and the right edge of the last one."""
    font = font_of(number.font, 100)
    widths = [font.getlength(number.text[:count]) / 100 * number.height for count in range(len(number.text) + 1)]
    return [number.x - widths[-1] / 2 + width for width in widths]
