"""A page with one centred column, which scrolls if it is higher than the window."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.design.layouts import STRETCH, boxed, column_of, row_of

WIDTH = 880  # maximum in pixels, so that lines stay readable


class ColumnPage(QScrollArea):
    """A page of one column. Subclasses add widgets to ``column`` and then call ``show_column``."""

    def __init__(self) -> None:
        super().__init__()
        self._inside = QWidget()
        self._inside.setMaximumWidth(WIDTH)
        self.column = column_of(margins=(32, 24, 32, 32), spacing=8)
        self._inside.setLayout(self.column)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def show_column(self) -> None:
        """Lays out the column. Call it once, when the column is complete."""
        outside = boxed(row_of(STRETCH, (self._inside, 1000), STRETCH))
        self.setWidget(outside)
