"""The frame of a plot of right answers by lane: its axes, and where a figure stands in it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.design import themes
from app.design.fonts import caption_font, px
from app.design.tokens import color
from app.system.i18n import tr

LEAST_WIDTH, LEAST_HEIGHT = 280, 256  # pixels at 100 %
SHARES = (0, 50, 100)  # of the grid lines, in per cent
INSET = 10  # pixels between the frame's corners and the least and largest figures


class LanePlot(QWidget):
    """The share of right answers on the y axis. A subclass says what is on the x axis, and paints the lanes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def _axis(self) -> tuple[str, float]:
        """Returns the title of the x axis, and its largest figure."""
        raise NotImplementedError

    def _paint_lanes(self, painter: QPainter, area: QRectF, top: float) -> None:
        """Paints the lanes; ``top`` is the end of the x axis."""
        raise NotImplementedError

    def _describe(self, spoken: Sequence[str]) -> None:
        """Sets the figures as sentences, and paints anew."""
        self.setAccessibleDescription(" ".join(spoken))
        self.setToolTip("\n".join(spoken))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(px(LEAST_WIDTH), px(LEAST_HEIGHT))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), color(themes.current().surface))
        painter.setFont(caption_font())
        metrics = painter.fontMetrics()
        left, line = metrics.horizontalAdvance("100 %") + 8, metrics.height()
        area = QRectF(left, 1.5 * line, self.width() - left - 12, self.height() - 4 * line - 4)
        title, most = self._axis()
        marks = ticks(max(1e-9, most))
        self._paint_frame(painter, area, marks, title)
        self._paint_lanes(painter, area, marks[-1])
        painter.end()

    def _paint_frame(self, painter: QPainter, area: QRectF, marks: Sequence[float], title: str) -> None:
        metrics = painter.fontMetrics()
        line = metrics.height()
        ink, rule = color(themes.current().faint_ink), QPen(color(themes.current().line), 1)
        for share in SHARES:
            y, text = self._y(area, share / 100), f"{share} %"
            painter.setPen(rule)
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(ink)
            at = QPointF(area.left() - 8 - metrics.horizontalAdvance(text), y + metrics.ascent() / 2 - 1)
            painter.drawText(at, text)
        for mark in marks:
            x, text = self._x(area, mark, marks[-1]), f"{mark:,g}"
            painter.setPen(rule)
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
            painter.setPen(ink)
            width = metrics.horizontalAdvance(text)
            painter.drawText(QPointF(min(x - width / 2, area.right() + 12 - width), area.bottom() + line), text)
        painter.drawText(QPointF(0, metrics.ascent()), tr("right"))
        under = QRectF(area.left(), area.bottom() + line + 4, area.width(), line + 4)
        painter.drawText(under, Qt.AlignmentFlag.AlignCenter, title)

    @staticmethod
    def _x(area: QRectF, figure: float, top: float) -> float:
        return area.left() + INSET + (area.width() - 2 * INSET) * figure / top

    @staticmethod
    def _y(area: QRectF, share: float) -> float:
        return area.bottom() - INSET - (area.height() - 2 * INSET) * share


def ticks(most: float) -> list[float]:
    """Returns three to six ticks of an axis, from 0 to the first round number of at least ``most``; ``most`` > 0."""
    power = 10.0 ** math.floor(math.log10(most))
    step = next(power * part for part in (0.2, 0.5, 1.0, 2.0) if most / (power * part) <= 5)
    return [round(step * count, 12) for count in range(math.ceil(most / step - 1e-9) + 1)]
