"""The plot of the share of right answers so far: a line for each lane, with an interval that narrows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from app.design import themes
from app.design.series import draw_mark, pens
from app.design.tokens import color
from app.race.batch.lane_plot import LanePlot
from app.state.intervals import wilson
from app.system.i18n import tr

MOST_POINTS = 200  # of a line
BAND = 36  # opacity of an interval, of 255

Verdicts = tuple[int, str, Sequence[bool]]
"""A lane's index and title, and whether each of its answers is right, in their order."""


class RatePlot(LanePlot):
    """The plot. Lanes differ in colour, dashes, and the mark at the line's end."""

    def __init__(self) -> None:
        super().__init__(tr("Share of right answers so far"))
        self._lanes: list[Verdicts] = []

    def show_verdicts(self, lanes: Sequence[Verdicts]) -> None:
        """Shows lanes. Those without a checked answer are left out."""
        self._lanes = [lane for lane in lanes if lane[2]]
        self._describe([_spoken(*lane) for lane in self._lanes])

    def _axis(self) -> tuple[str, float]:
        return tr("answers"), max((len(verdicts) for _, _, verdicts in self._lanes), default=1)

    def _paint_lanes(self, painter: QPainter, area: QRectF, top: float) -> None:
        known = pens(themes.current())
        for place, _, verdicts in self._lanes:
            pen = known[place % len(known)]
            points = _points(verdicts)
            places = [(self._x(area, count, top), right / count, wilson(right, count)) for count, right in points]
            lower = [QPointF(x, self._y(area, low)) for x, _, (low, _) in places]
            upper = [QPointF(x, self._y(area, high)) for x, _, (_, high) in places]
            line = [QPointF(x, self._y(area, rate)) for x, rate, _ in places]
            band = QColor(pen.shade)
            band.setAlpha(BAND)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(band)
            painter.drawPolygon(QPolygonF([*lower, *reversed(upper)]))
            painter.setBrush(color(pen.shade))
            draw_mark(painter, pen.mark, line[-1])
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(color(pen.shade), 2, pen.dashes))
            painter.drawPolyline(QPolygonF(line))


def _points(verdicts: Sequence[bool]) -> list[tuple[int, int]]:
    """Returns answers and right ones among them, after each answer or after at most ``MOST_POINTS`` of them."""
    right = list(accumulate(map(int, verdicts)))
    step = max(1, len(right) // MOST_POINTS)
    counts = [*range(step, len(right), step), len(right)]
    return [(count, right[count - 1]) for count in counts]


def _spoken(place: int, title: str, verdicts: Sequence[bool]) -> str:
    low, high = wilson(sum(verdicts), len(verdicts))
    return tr(
        "{lane}, {title}: {right} of {count} right, interval {low:.1f} to {high:.1f} %.",
        lane=place + 1,
        title=title,
        right=sum(verdicts),
        count=len(verdicts),
        low=100 * low,
        high=100 * high,
    )
