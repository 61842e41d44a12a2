"""Plots of a block's figures over its steps, with the current frame marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from app.canvas.legend import Legend, LegendEntry
from app.design import themes
from app.design.fonts import caption_font, px
from app.design.layouts import column_of
from app.design.tokens import SPACE_2, SPACE_4, Theme, color
from app.inspector.timeline.steps_area import StepsArea
from app.player.player import Player
from app.state.run.replay import NOISE
from app.system.i18n import tr
from engine import step_number

LEAST_COLUMN, MOST_COLUMN = 4, 32  # pixels at 100 %
GUTTER, ROW, GAP, NUMBERS = 48, 72, 16, 20  # pixels at 100 %


class StepLine(NamedTuple):
    """A figure over the steps. ``shade`` is the name of a colour of the theme."""

    values: Sequence[float]
    shade: str
    style: Qt.PenStyle = Qt.PenStyle.SolidLine


def round_up(value: float) -> float:
    """Returns the next of …, 1, 2, 5, 10, 20, …; 1 for values of 0 and less."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if value <= step * unit * (1 + 1e-9))


class Curves(StepsArea):
    """Two plots over the same steps: mean entropy above, accepted cells and changed guesses below."""

    def __init__(self, player: Player) -> None:
        super().__init__(player, LEAST_COLUMN, MOST_COLUMN)
        self.rows: tuple[tuple[StepLine, ...], ...] = ()
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(tr("Plots over the steps"))
        self._reload()

    def gutter(self) -> int:
        return px(GUTTER)

    def sizeHint(self) -> QSize:
        return QSize(px(320), 2 * px(ROW + GAP) + px(NUMBERS) + self.horizontalScrollBar().sizeHint().height())

    def load(self) -> None:
        self.setFixedHeight(self.sizeHint().height())
        record = self.record
        if record is None:
            self.rows = ()
            return
        changed = StepLine(record.change_counts.tolist(), "remelted", Qt.PenStyle.DashLine)
        self.rows = (
            (StepLine(record.mean_entropy.tolist(), "ink"),),
            (StepLine(record.accepted_counts.tolist(), "accepted"), changed),
        )

    def describe(self) -> None:
        frame = self.player.frame
        self.setAccessibleDescription(self.words_at(frame.step) if frame is not None else "")

    def words_at(self, step: int) -> str:
        """Returns the figures of a step; empty outside the block's steps."""
        record = self.record
        if record is None or not NOISE < step < record.steps:
            return ""
        return tr(
            "Step {step}: mean entropy {entropy} nats, {accepted} of {cells} accepted, {changed} guesses changed.",
            step=step_number(step),
            entropy=f"{record.mean_entropy[step]:.3f}",
            accepted=int(record.accepted_counts[step]),
            cells=len(range(record.length)[record.counted]),
            changed=int(record.change_counts[step]),
        )

    def tip_at(self, point: QPoint) -> str:
        return self.words_at(self.step_at(point.x()))

    def paint(self, painter: QPainter, clip: QRect) -> None:
        painter.fillRect(clip, color(themes.current().surface_sunken))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(caption_font())
        for row, lines in enumerate(self.rows if self.steps else ()):
            top = px(GAP) + row * px(ROW + GAP)
            self._paint_row(painter, QRectF(self.gutter(), top, self.viewport().width(), px(ROW)), lines)
        self.paint_step_numbers(painter, 2 * px(ROW + GAP), px(NUMBERS), clip)
        rect = self.cursor_rect()
        if rect is not None and rect.left() >= self.gutter() - 3:
            self.paint_cursor(painter, rect, color(themes.current().accent))
        self.paint_ring(painter)

    def _paint_row(self, painter: QPainter, area: QRectF, lines: Sequence[StepLine]) -> None:
        theme, half = themes.current(), self.column / 2
        most = round_up(max(max(line.values) for line in lines))
        painter.setPen(color(theme.faint_ink))
        for text, y in ((f"{most:g}", area.top()), ("0", area.bottom())):
            place = QRectF(0, y - px(8), self.gutter() - px(8), px(16))
            painter.drawText(place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        painter.setPen(QPen(color(theme.line_strong), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        painter.save()
        painter.setClipRect(area.adjusted(0, -4, 0, 4), Qt.ClipOperation.IntersectClip)
        for line in lines:
            points = [
                QPointF(self.x_of(step) + half, area.bottom() - area.height() * value / most)
                for step, value in enumerate(line.values)
            ]
            shade = color(getattr(theme, line.shade))
            painter.setPen(QPen(shade, 1.5, line.style))
            painter.drawPolyline(QPolygonF(points))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(shade)
            for point in points:
                painter.drawEllipse(point, 2, 2)
            painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.restore()


class Plots(QWidget):
    """The plots with their legend."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self.area, self.legend = Curves(player), Legend()
        solid, dashed = Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine
        self.legend.set_entries(
            [
                LegendEntry(tr("mean entropy, nats"), partial(_draw, "ink", solid)),
                LegendEntry(tr("accepted cells"), partial(_draw, "accepted", solid)),
                LegendEntry(tr("best guess changed"), partial(_draw, "remelted", dashed)),
            ]
        )
        margins = (SPACE_4, SPACE_2, SPACE_4, SPACE_4)
        self.setLayout(column_of(self.legend, self.area, margins=margins, spacing=SPACE_2))


def _draw(shade: str, style: Qt.PenStyle, painter: QPainter, rect: QRectF, theme: Theme) -> None:
    painter.setPen(QPen(color(getattr(theme, shade)), 2, style))
    painter.drawLine(QPointF(rect.left(), rect.center().y()), QPointF(rect.right(), rect.center().y()))
