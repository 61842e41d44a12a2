"""A page with one centred column, which scrolls if it is higher than the window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.design.layouts import STRETCH, Margins, Part, boxed, column_of, row_of

WIDTH = 880  # maximum in pixels, so that lines stay readable


class ColumnPage(QScrollArea):
    """A page of one column. A subclass calls ``show_column`` once, with the parts of it."""

    def __init__(self) -> None:
        super().__init__(widgetResizable=True)
        self._inside = QWidget(maximumWidth=WIDTH)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def show_column(self, *parts: Part, margins: Margins = (32, 24, 32, 32), spacing: int = 8) -> None:
        self._inside.setLayout(column_of(*parts, STRETCH, margins=margins, spacing=spacing))
        self.setWidget(boxed(row_of(STRETCH, (self._inside, 1000), STRETCH)))
