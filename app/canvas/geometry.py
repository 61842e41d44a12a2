"""The layout of cells and legend, and the cell under a point. Plain integers in logical pixels; no Qt, no text."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

MARGIN = 16
GAP = 2
MAX_COLUMNS = 64


class Rect(NamedTuple):
    x: int
    y: int
    width: int
    height: int


def flow(widths: Sequence[int], available: int, row_height: int, spacing: int) -> tuple[list[Rect], int]:
    """Lays out items in rows from (0, 0), like words in a paragraph. Returns their rectangles and the total height."""
    rects: list[Rect] = []
    x = y = 0
    for width in widths:
        if x and x + width > available:
            x, y = 0, y + row_height
        rects.append(Rect(x, y, width, row_height))
        x += width + spacing
    return rects, y + row_height if rects else 0


def fitting_columns(available: int, cell_width: int, count: int) -> int:
    """Returns the number of cells in a row.

    A number near the most that fit is preferred if it fills all rows; otherwise the result is a multiple of 4.
    """
    fit = max(1, min((available + GAP) // (cell_width + GAP), MAX_COLUMNS))
    if fit >= count > 0:
        return count
    if fit < 8:
        return fit
    for columns in range(fit, math.ceil(0.75 * fit) - 1, -1):
        if count and count % columns == 0:
            return columns
    return fit - fit % 4


def line_lengths(count: int, ends: Sequence[int]) -> list[int]:
    """Returns the number of cells in each line. ``ends`` are the positions after which a line ends."""
    edges = [0, *(end + 1 for end in ends), count]
    return [length for start, end in pairwise(edges) if (length := end - start)]


def row_starts(count: int, columns: int, ends: Sequence[int] = ()) -> tuple[int, ...]:
    """Returns the first cell of each row. A line longer than ``columns`` is wrapped."""
    starts: list[int] = []
    begin = 0
    for length in line_lengths(count, ends):
        starts += range(begin, begin + length, columns)
        begin += length
    return tuple(starts)


@dataclass(frozen=True)
class Geometry:
    """A grid of ``count`` cells with its legend underneath. A row ends with a line of the text, or when it is full."""

    width: int
    height: int
    count: int
    columns: int
    cell_width: int
    cell_height: int
    legend: tuple[Rect, ...]  # one rectangle for each entry
    bar: Rect | None  # the entropy bar with its labels
    starts: tuple[int, ...]  # the first cell of each row

    @staticmethod
    def from_width(
        width: int,
        count: int,
        cell_width: int,
        cell_height: int,
        *,
        columns: int | None = None,
        ends: Sequence[int] = (),
        least_rows: int = 0,
        legend_widths: Sequence[int] = (),
        legend_height: int = 24,
        bar_height: int = 0,
    ) -> Geometry:
        """Lays out a canvas. ``columns`` fixes the number of columns; None chooses it from the width.

        ``ends`` are the positions after which a row ends even if it is not full.
        """
        inner = max(width - 2 * MARGIN, cell_width)
        chosen = columns if columns is not None else fitting_columns(inner, cell_width, count)
        chosen = max(1, min(chosen, count or chosen))
        starts = row_starts(count, chosen, ends)
        rows = max(len(starts), least_rows)
        grid = rows * (cell_height + GAP) - GAP if rows else 0
        items, legend_total = flow(legend_widths, inner, legend_height, 20)
        top = MARGIN + grid + (MARGIN if grid else 0)
        legend = tuple(Rect(r.x + MARGIN, r.y + top, r.width, r.height) for r in items)
        bottom = top + legend_total
        bar = None
        if bar_height:
            bar = Rect(MARGIN, bottom + 8, inner, bar_height)
            bottom += 8 + bar_height
        if not legend and bar is None:
            bottom -= MARGIN if grid else 0
        return Geometry(width, bottom + MARGIN, count, chosen, cell_width, cell_height, legend, bar, starts)

    @property
    def rows(self) -> int:
        return len(self.starts)

    def place_of(self, index: int) -> tuple[int, int]:
        """Returns row and column of a cell, counted from 0. Raises IndexError for a cell outside the canvas."""
        if not 0 <= index < self.count:
            raise IndexError(f"cell {index} is outside the canvas of {self.count}")
        row = bisect_right(self.starts, index) - 1
        return row, index - self.starts[row]

    @cached_property
    def cells(self) -> tuple[Rect, ...]:
        return tuple(self.rect_of(index) for index in range(self.count))

    def moving_from(self, before: Geometry, share: float) -> Geometry:
        """Returns this layout with its cells moving here from ``before``; ``share`` of the move is done, 0 to 1."""
        geometry = replace(self)
        moves = zip(before.cells, self.cells, strict=True)
        geometry.__dict__["cells"] = tuple(
            old._replace(x=old.x + round(share * (new.x - old.x)), y=old.y + round(share * (new.y - old.y)))
            for old, new in moves
        )
        return geometry

    def bounds(self, indices: Iterable[int], border: int = 2) -> Rect | None:
        """Returns the smallest rectangle around some cells and their marks; None for no cells."""
        rects = [self.cells[index] for index in indices if 0 <= index < self.count]
        if not rects:
            return None
        left, top = min(r.x for r in rects) - border, min(r.y for r in rects) - border
        right = max(r.x + r.width for r in rects) + border
        bottom = max(r.y + r.height for r in rects) + border
        return Rect(left, top, right - left, bottom - top)

    def rect_of(self, index: int) -> Rect:
        """Returns the rectangle of a cell. Raises IndexError for a cell outside the canvas."""
        row, column = self.place_of(index)
        x = MARGIN + column * (self.cell_width + GAP)
        y = MARGIN + row * (self.cell_height + GAP)
        return Rect(x, y, self.cell_width, self.cell_height)

    def cell_at(self, x: float, y: float) -> int:
        """Returns the cell under a point, or -1. A gap belongs to the cell before it, so that hovering is steady."""
        column = int((x - MARGIN) // (self.cell_width + GAP))
        row = int((y - MARGIN) // (self.cell_height + GAP))
        return self.starts[row] + column if 0 <= row < self.rows and 0 <= column < self._length(row) else -1

    def _length(self, row: int) -> int:
        end = self.starts[row + 1] if row + 1 < self.rows else self.count
        return end - self.starts[row]

    def moved(self, index: int, columns: int, rows: int) -> int:
        """Returns the cell that many columns to the right and rows down; ``index`` if that is outside the canvas.

        In a shorter row the last cell is used for the columns that it lacks.
        """
        row, column = self.place_of(index)
        if rows and not 0 <= row + rows < self.rows:
            return index
        target = self.starts[row + rows] + min(column, self._length(row + rows) - 1) + columns
        return target if 0 <= target < self.count else index
