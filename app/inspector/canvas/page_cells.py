"""The grids of cells on the inspector's page, which leave most keys to the page and can mark some cells."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPen

from app.board.view import BlockBoard
from app.canvas.grid_view import GridView
from app.canvas.view import CanvasView
from app.design import themes
from app.design.tokens import color
from app.player.player import NOTHING
from app.state.run.canvas import Mask

TINT = 0.3  # opacity of the tint over a marked cell

_MOVES = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home, Qt.Key.Key_End)


class PageArrows(GridView):
    """A grid that moves with Up and Down, and with arrows, Home and End and Ctrl. Other keys go to the page."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if modifiers == Qt.KeyboardModifier.ControlModifier and key in _MOVES:
            super().keyPressEvent(QKeyEvent(event.type(), key, Qt.KeyboardModifier.NoModifier))
        elif not modifiers and (key in (Qt.Key.Key_Up, Qt.Key.Key_Down) or self._lets_go(key)):
            super().keyPressEvent(event)
        else:
            event.ignore()

    def _lets_go(self, key: Qt.Key) -> bool:
        return key == Qt.Key.Key_Escape and self.selected != NOTHING


class Cells(PageArrows, CanvasView):
    """A canvas of tokens on the inspector's page."""


class BoardCells(PageArrows, BlockBoard):
    """A board on the inspector's page."""

    def _wants(self, event: QKeyEvent) -> bool:
        """True for keys that the board takes before the page does: only those with Ctrl."""
        return bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier) and super()._wants(event)


class Marked(GridView):
    """A grid with some positions of its canvas marked by a subclass's ``_paint_mark``."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: Mask = np.zeros(0, dtype=np.bool_)  # the marked positions, shape (C,)

    def set_marks(self, marks: Mask) -> None:
        """Marks these positions, shape (C,)."""
        if not np.array_equal(marks, self.marks):
            self.marks = marks
            self.update()

    def cell_of(self, position: int) -> int:
        """Returns the cell at a position of the canvas, or -1."""
        return position

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        cells = [self.cell_of(position) for position in np.flatnonzero(self.marks).tolist()]
        painter = QPainter(self)
        for cell in cells:
            if 0 <= cell < self.grid.count:
                self._paint_mark(painter, QRect(*self.grid.rect_of(cell)))
        painter.end()

    def _paint_mark(self, painter: QPainter, rect: QRect) -> None:
        raise NotImplementedError


class Spanned(Marked):
    """A grid that tints and frames the cells that are to be rewritten. Not all users can see a tint alone."""

    def _paint_mark(self, painter: QPainter, rect: QRect) -> None:
        shade = QColor(color(themes.current().accent))
        painter.setPen(QPen(shade, 1, Qt.PenStyle.DashLine))
        painter.drawRect(rect.adjusted(0, 0, -1, -1))
        shade.setAlphaF(TINT)
        painter.fillRect(rect, shade)


class SpannedCanvas(Spanned, Cells):
    """A canvas of tokens with tinted spans."""


class SpannedBoard(Spanned, BoardCells):
    """A board with tinted spans."""

    def cell_of(self, position: int) -> int:
        return BoardCells.cell_of(self, position)
