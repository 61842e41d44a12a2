"""The outline of a page, shown while the page is created: a title and empty cards."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QWidget

from app.design.fonts import px
from app.system.i18n import tr

SIDE, TOP, GAP = 24, 40, 12  # pixels at a text size of 100 %
TITLE = (320, 28)
CARD = (300, 180)  # least width and height
MOST_WIDTH = 960


class Skeleton(QWidget):
    """Draws a title and empty cards, centred, in as many columns as fit."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("The page is loading"))

    def show_now(self) -> None:
        """Paints now, before control returns to the event loop; does nothing in a hidden window."""
        if self.isVisible():
            self.repaint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(self.palette().color(QPalette.ColorRole.Light))
        painter.setBrush(self.palette().color(QPalette.ColorRole.AlternateBase))
        for place in self._places():
            painter.drawRoundedRect(place.adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        painter.end()

    def _places(self) -> list[QRectF]:
        """Returns the rectangles of the title and then of the cards, down to the lower edge."""
        gap = px(GAP)
        whole = min(self.width(), px(MOST_WIDTH)) - 2 * px(SIDE)
        left, y = (self.width() - whole) / 2, px(TOP)
        found = [QRectF(left, y, min(whole, px(TITLE[0])), px(TITLE[1]))]
        y += px(TITLE[1]) + 2 * gap
        columns = max(1, (whole + gap) // (px(CARD[0]) + gap))
        width = (whole - (columns - 1) * gap) / columns
        while y < self.height():
            found += [QRectF(left + place * (width + gap), y, width, px(CARD[1])) for place in range(columns)]
            y += px(CARD[1]) + gap
        return found
