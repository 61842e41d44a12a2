"""A picture of what was there before, fading over what has taken its place."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, Qt, QVariantAnimation, Slot
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.design.tokens import FADE_MS


class Fading(QWidget):
    """Lies over ``area`` of its parent and deletes itself; lets the pointer through and is not read out."""

    def __init__(self, parent: QWidget, area: QRect) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._picture = parent.grab(area)
        self._opacity = 1.0
        self.setGeometry(area)
        self._fade = QVariantAnimation(self)
        self._fade.setDuration(FADE_MS)
        self._fade.setStartValue(1.0)
        self._fade.setEndValue(0.0)
        self._fade.valueChanged.connect(self._step)
        self._fade.finished.connect(self.deleteLater)

    def start(self) -> None:
        self.show()
        self.raise_()
        self._fade.start()

    @Slot(object)
    def _step(self, opacity: float) -> None:
        self._opacity = opacity
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setOpacity(self._opacity)
        painter.drawPixmap(QPoint(), self._picture)
        painter.end()
