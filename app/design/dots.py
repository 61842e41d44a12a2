"""A button with three dots that opens a menu."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.design.icons import set_icon

BUTTON = 28  # pixels; the button is a square


class DotsButton(QToolButton):
    """A button with three dots."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "dots")
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setFixedSize(BUTTON, BUTTON)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        set_icon(self, "dots-horizontal")
