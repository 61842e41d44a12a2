"""A label of one line that ends in dots where there is no room for all of it; all of it is in its tool tip."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy

LEAST = 40  # pixels that are written into, even before there is a place


class Elided(QLabel):
    """``set_whole`` takes the text."""

    def __init__(self, role: str) -> None:
        super().__init__()
        self._whole = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def set_whole(self, text: str) -> None:
        """Show as much of this as there is room for."""
        if text == self._whole:
            return
        self._whole = text
        self.setToolTip(text)
        self.setAccessibleName(text)
        self._elide()

    def _elide(self) -> None:
        room = max(LEAST, self.width())
        text = QFontMetrics(self.font()).elidedText(self._whole, Qt.TextElideMode.ElideRight, room)
        if text != self.text():
            self.setText(text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()
