"""A card: a button of a picture, a title and a sentence, all of it clickable."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from app.design.controls import label
from app.design.fonts import px
from app.design.layouts import STRETCH, Gap, column_of

CARD_MARGINS = (16, 12, 16, 12)  # pixels: left, top, right, bottom


class Card(QPushButton):
    """A card that is as high as its texts need at its width. ``picture`` takes no mouse events."""

    def __init__(self, picture: QWidget, title: str, hint: str, name: str) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.setAccessibleName(name)
        self.setAccessibleDescription(hint)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.title = label(title, "card-title", wrap=True)
        self.hint = label(hint, "card-hint", wrap=True)
        parts = (picture, Gap(4), self.title, self.hint, STRETCH)
        self._column = column_of(*parts, margins=CARD_MARGINS, spacing=4)
        self.setLayout(self._column)
        for part in (self.title, self.hint):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def sizeHint(self) -> QSize:
        width = max(self.width(), px(200))
        return QSize(width, self._column.totalHeightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(160), self._column.totalHeightForWidth(max(self.width(), px(160))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()
