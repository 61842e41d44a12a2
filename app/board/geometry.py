"""The rectangles of a board's cells, and the cell under a point, in logical pixels. Knows neither Qt nor a puzzle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from app.canvas.geometry import Rect
from app.state.sudoku.board import SIZE

MARGIN = 8
"""Space around the board, for its frame and the ring of the outermost cells."""
LEAST_CELL = 14


@dataclass(frozen=True)
class BoardGeometry:
    """The place and size of a board, with whole pixels a cell."""

    left: int
    top: int
    cell: int  # width and height of a cell

    @staticmethod
    def within(width: int, height: int) -> BoardGeometry:
        """Returns the largest board that fits into a rectangle, centred."""
        cell = max((min(width, height) - 2 * MARGIN) // 9, LEAST_CELL)
        return BoardGeometry(max((width - 9 * cell) // 2, 0), max((height - 9 * cell) // 2, 0), cell)

    @property
    def side(self) -> int:
        return 9 * self.cell

    @property
    def count(self) -> int:
        return SIZE

    def rect_of(self, index: int) -> Rect:
        """Returns the rectangle of a cell. Raises IndexError outside the board."""
        if not 0 <= index < SIZE:
            raise IndexError(f"cell {index} is outside the board of {SIZE}")
        return self.cells[index]

    @cached_property
    def cells(self) -> tuple[Rect, ...]:
        left, top, cell = self.left, self.top, self.cell
        return tuple(Rect(left + index % 9 * cell, top + index // 9 * cell, cell, cell) for index in range(SIZE))

    def cell_at(self, x: float, y: float) -> int:
        """Returns the cell under a point, or -1."""
        column, row = int((x - self.left) // self.cell), int((y - self.top) // self.cell)
        return 9 * row + column if 0 <= column < 9 and 0 <= row < 9 else -1
