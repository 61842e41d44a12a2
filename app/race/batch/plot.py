"""The plot of exactness over speed: a mark for each lane, with the intervals of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.design import themes
from app.design.fonts import caption_font, px
from app.design.series import draw_mark, pens
from app.design.tokens import color
from app.state.race.scores import Interval, LaneScore
from app.system.i18n import tr

LEAST_WIDTH, LEAST_HEIGHT = 280, 256  # pixels at 100 %
SHARES = (0, 50, 100)  # of the grid lines, in per cent
BEAM = 4  # pixels, half of a whisker's end
NAME_GAP = 8  # pixels between a mark and its number
NAME_SIDES = ((1, -1), (-1, -1), (1, 1), (-1, 1))
"""Right or left of the mark, above or below it, by lane, so that the numbers of equal lanes do not overlap."""
INSET = 10  # pixels between the frame's corners and the least and largest figures


@dataclass(frozen=True)
class Speed:
    """A speed on the x axis: ``name`` is its field in ``LaneScore``, ``title`` is untranslated."""

    name: str
    title: str

    def of(self, row: LaneScore) -> float:
        found: float = getattr(row, self.name)
        return found

    def interval(self, row: LaneScore) -> Interval:
        found: Interval = getattr(row, f"{self.name}_interval")
        return found


SPEEDS = (Speed("tokens_per_second", "tokens per second"), Speed("tokens_per_forward", "tokens per forward"))


class SpeedPlot(QWidget):
    """The plot. Lanes differ in shape, colour and number."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: list[tuple[int, str, LaneScore]] = []
        self._speed = SPEEDS[0]
        self.setAccessibleName(tr("Speed against exactness"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_rows(self, rows: Sequence[tuple[int, str, LaneScore]], speed: Speed) -> None:
        """Shows rows of lane index, title and score. Lanes without a checked answer are left out."""
        self._rows, self._speed = [row for row in rows if row[2].rate is not None], speed
        spoken = [self._spoken(place, title, row) for place, title, row in self._rows]
        self.setAccessibleDescription(" ".join(spoken))
        self.setToolTip("\n".join(spoken))
        self.update()

    def _spoken(self, place: int, title: str, row: LaneScore) -> str:
        (low, high), (slow, fast) = row.exact_interval, self._speed.interval(row)
        return tr(
            "{lane}, {title}: {rate:.1f} % right, interval {low:.1f} to {high:.1f} %; {speed:.4g} {unit}, interval "
            "{slow:.4g} to {fast:.4g}.",
            lane=place + 1,
            title=title,
            rate=100 * (row.rate or 0.0),
            low=100 * low,
            high=100 * high,
            speed=self._speed.of(row),
            unit=tr(self._speed.title),
            slow=slow,
            fast=fast,
        )

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
        marks = ticks(max([1e-9, *(self._speed.interval(row)[1] for _, _, row in self._rows)]))
        self._paint_frame(painter, area, marks)
        for place, _, row in self._rows:
            self._paint_lane(painter, area, marks[-1], place, row)
        painter.end()

    def _paint_frame(self, painter: QPainter, area: QRectF, marks: Sequence[float]) -> None:
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
        painter.drawText(QPointF(0, metrics.ascent()), tr("exact"))
        under = QRectF(area.left(), area.bottom() + line + 4, area.width(), line + 4)
        painter.drawText(under, Qt.AlignmentFlag.AlignCenter, tr(self._speed.title))

    def _paint_lane(self, painter: QPainter, area: QRectF, top: float, place: int, row: LaneScore) -> None:
        """Draws the mark of a lane, its whiskers, and the lane's number next to it."""
        known = pens(themes.current())
        pen = known[place % len(known)]
        middle = QPointF(self._x(area, self._speed.of(row), top), self._y(area, row.rate or 0.0))
        left, right = (self._x(area, end, top) for end in self._speed.interval(row))
        low, high = (self._y(area, end) for end in row.exact_interval)
        painter.setPen(QPen(color(pen.shade), 1.5))
        painter.drawLine(QPointF(left, middle.y()), QPointF(right, middle.y()))
        painter.drawLine(QPointF(middle.x(), low), QPointF(middle.x(), high))
        for x in (left, right):
            painter.drawLine(QPointF(x, middle.y() - BEAM), QPointF(x, middle.y() + BEAM))
        for y in (low, high):
            painter.drawLine(QPointF(middle.x() - BEAM, y), QPointF(middle.x() + BEAM, y))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color(pen.shade))
        draw_mark(painter, pen.mark, middle)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(color(themes.current().ink))
        name = str(place + 1)
        across, down = NAME_SIDES[place % len(NAME_SIDES)]
        metrics = painter.fontMetrics()
        is_below = down > 0 and middle.y() + NAME_GAP + metrics.height() < area.bottom()  # clear of the axis
        x = middle.x() + (NAME_GAP if across > 0 else -NAME_GAP - metrics.horizontalAdvance(name))
        painter.drawText(QPointF(x, middle.y() + (NAME_GAP + metrics.ascent() / 2 if is_below else -NAME_GAP)), name)

    @staticmethod
    def _x(area: QRectF, speed: float, top: float) -> float:
        return area.left() + INSET + (area.width() - 2 * INSET) * speed / top

    @staticmethod
    def _y(area: QRectF, share: float) -> float:
        return area.bottom() - INSET - (area.height() - 2 * INSET) * share


def ticks(most: float) -> list[float]:
    """Returns three to six ticks of an axis, from 0 to the first round number of at least ``most``; ``most`` > 0."""
    power = 10.0 ** math.floor(math.log10(most))
    step = next(power * part for part in (0.2, 0.5, 1.0, 2.0) if most / (power * part) <= 5)
    return [round(step * count, 12) for count in range(math.ceil(most / step - 1e-9) + 1)]
