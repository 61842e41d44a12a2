"""The canvas that answers were read from, with its slots marked by the numbers of their questions. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QWidget

from app.canvas.view import CanvasView
from app.design.fonts import caption_font
from app.design.tokens import color, readable_on
from app.system.i18n import tr

FRAME = 2  # pixels


class SlotCanvas(CanvasView):
    """A canvas with a frame around each slot, and around the chosen one a filled badge."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._slots: Mapping[int, int] = {}
        self._chosen = -1
        self.set_legend(False)
        self.setAccessibleName(tr("Canvas with slots"))

    def set_slots(self, slots: Mapping[int, int]) -> None:
        """The numbers of the questions, from 1, by the position that answers them."""
        self._slots = slots
        self.update()

    def choose(self, number: int) -> None:
        """Stress the slot of a question; -1 none."""
        self._chosen = number
        self.update()

    @property
    def slots(self) -> Mapping[int, int]:
        """The numbers of the questions by position."""
        return self._slots

    def cell_details(self, index: int) -> list[str]:
        """What else is known of a cell."""
        number = self._slots.get(index)
        own = [] if number is None else [tr("Slot of question {number}", number=number)]
        return [*own, *super().cell_details(index)]

    def _paint(self, painter: QPainter, area: QRect) -> None:
        super()._paint(painter, area)
        painter.setFont(caption_font())
        for position, number in self._slots.items():
            if position < self.grid.count:
                self._paint_slot(painter, QRectF(*self.grid.rect_of(position)), number)

    def _paint_slot(self, painter: QPainter, rect: QRectF, number: int) -> None:
        accent = color(self._theme.accent)
        painter.setPen(QPen(accent, FRAME))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(rect.adjusted(0, 0, 0, 0), 3, 3)
        if number != self._chosen:
            return
        painter.fillRect(QRectF(rect.left(), rect.bottom() - 3, rect.width(), 3), accent)
        painter.setPen(readable_on(accent))
