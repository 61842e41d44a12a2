"""A button with three dots that opens a menu."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QToolButton, QWidget

BUTTON = 28  # pixels; the button is a square


class DotsButton(QToolButton):
    """A button with three dots, drawn, since not every font has them."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "dots")
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setFixedSize(BUTTON, BUTTON)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.palette().buttonText())
        middle = self.rect().center()
        for step in (-5, 0, 5):
            painter.drawEllipse(middle + QPoint(step + 1, 1), 1.5, 1.5)
        painter.end()
