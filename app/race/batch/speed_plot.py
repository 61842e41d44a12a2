"""The plot of right answers by speed: a mark for each lane, with the intervals of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from app.design import themes
from app.design.series import draw_mark, pens
from app.design.tokens import color
from app.race.batch.lane_plot import LanePlot
from app.state.race.scores import Interval, LaneScore
from app.system.i18n import tr

BEAM = 4  # pixels, half of a whisker's end
NAME_GAP = 8  # pixels between a mark and its number
NAME_SIDES = ((1, -1), (-1, -1), (1, 1), (-1, 1))
"""Right or left of the mark, above or below it, by lane, so that the numbers of equal lanes do not overlap."""


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


SPEEDS = (Speed("tokens_per_second", "tokens per second"), Speed("tokens_per_forward", "tokens per pass"))


class SpeedPlot(LanePlot):
    """The plot. Lanes differ in shape, colour and number."""

    def __init__(self) -> None:
        super().__init__(tr("Right answers by speed"))
        self._rows: list[tuple[int, str, LaneScore]] = []
        self._speed = SPEEDS[0]

    def show_rows(self, rows: Sequence[tuple[int, str, LaneScore]], speed: Speed) -> None:
        """Shows rows of lane index, title and score. Lanes without a checked answer are left out."""
        self._rows, self._speed = [row for row in rows if row[2].rate is not None], speed
        self._describe([self._spoken(place, title, row) for place, title, row in self._rows])

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

    def _axis(self) -> tuple[str, float]:
        fastest = max((self._speed.interval(row)[1] for _, _, row in self._rows), default=0.0)
        return tr(self._speed.title), fastest

    def _paint_lanes(self, painter: QPainter, area: QRectF, top: float) -> None:
        for place, _, row in self._rows:
            self._paint_lane(painter, area, top, place, row)

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
