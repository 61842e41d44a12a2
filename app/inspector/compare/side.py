"""One of two canvases beside each other: a run's frame under its name, with the cells that differ in brackets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QRect
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.canvas.accessibility import expose_cells
from app.design.controls import Elided, scroller
from app.design.fonts import canvas_font
from app.design.tokens import DARKROOM, SPACE_1, SPACE_4, Theme, color
from app.inspector.canvas.canvas import Cells
from app.state.run.canvas import BlockState, Mask
from engine import Recording

CORNER = 5  # pixels of a mark's arms


class MarkedCanvas(Cells):
    """A canvas with some cells in brackets."""

    def __init__(self) -> None:
        super().__init__()
        self._marks: Mask = np.zeros(0, dtype=np.bool_)
        self._ink = DARKROOM.accent

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self._ink = theme.accent

    @property
    def marks(self) -> Mask:
        """(C,) which cells are marked."""
        return self._marks

    def set_marks(self, marks: Mask) -> None:
        """(C,) which cells to mark."""
        if not np.array_equal(marks, self._marks):
            self._marks = marks
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.block is None or not self._marks.any():
            return
        painter = QPainter(self)
        painter.setPen(QPen(color(self._ink), 2))
        for index in np.flatnonzero(self._marks[: self.block.length]).tolist():
            _bracket(painter, QRect(*self.grid.rect_of(index)).adjusted(1, 1, -1, -1))
        painter.end()


def _bracket(painter: QPainter, rect: QRect) -> None:
    """Two opposite corners, so that it is told from every state by its shape."""
    painter.drawLine(rect.left(), rect.top(), rect.left() + CORNER, rect.top())
    painter.drawLine(rect.left(), rect.top(), rect.left(), rect.top() + CORNER)
    painter.drawLine(rect.right(), rect.bottom(), rect.right() - CORNER, rect.bottom())
    painter.drawLine(rect.right(), rect.bottom(), rect.right(), rect.bottom() - CORNER)


class RunSide(QWidget):
    """A run's name, where it is, and its canvas."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.title, self.where = Elided("setting"), Elided("caption")
        self.view = MarkedCanvas()
        self.view.setAccessibleName(name)
        self.view.set_reduced_motion(True)  # two canvases that fade at once tell nothing
        expose_cells(self.view)
        self.area = scroller(self.view, arrows=False)  # they are the page's
        self.area.setObjectName("canvas-scroll")
        names = QVBoxLayout()
        names.setContentsMargins(SPACE_4, SPACE_1, SPACE_4, SPACE_1)
        names.setSpacing(0)
        names.addWidget(self.title)
        names.addWidget(self.where)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(names)
        column.addWidget(self.area, 1)

    def set_run(self, trace: Recording, title: str) -> None:
        """Whose canvases come: how its tokens are written, and what it is called."""
        self.title.set_whole(title)
        self.view.set_piece(trace.piece, trace.is_special)

    def show_frame(self, block: BlockState | None, where: str, marks: Mask, *, calm: bool) -> None:
        """A canvas, in words which one, and (C,) its cells that differ."""
        self.view.set_calm(calm)
        self.view.set_block(block)
        self.view.set_marks(marks)
        self.where.set_whole(where)

    def fits(self, size: int, tokens: Sequence[int]) -> bool:
        """Take this size of text (on the type scale), wide enough for these tokens; says if all is seen at once."""
        self.view.set_font(canvas_font(size))
        self.view.reserve(tokens)
        room = self.area.viewport().size()
        return self.view.heightForWidth(room.width()) <= room.height()
