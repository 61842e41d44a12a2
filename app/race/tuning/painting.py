"""Paints the result of a tuning: right answers by steps, a mark for each rule and threshold. Knows no widgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPen, QPolygonF
from PySide6.QtSvg import QSvgGenerator

from app.design.fonts import caption_font
from app.design.series import SeriesPen, draw_mark, pens
from app.design.tokens import Theme, color
from app.settings.decoders import option_title
from app.settings.spec import ACCEPTANCE
from app.state.tuning.result import TuningResult
from app.state.tuning.scores import TuningRow
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.config import ACCEPTANCE as RULES

SIZE = QSize(760, 440)  # logical pixels of a file
SCALE = 2  # of a PNG
INSET = 14  # pixels between the frame and the outermost figures
RING = 8.5  # radius in pixels
BAR = 3  # pixels, half of a bar's end
LEGEND_GAP = 22  # pixels between two names


@dataclass(frozen=True)
class Axis:
    """An axis from the first to the last of some round numbers."""

    ticks: tuple[float, ...]

    @staticmethod
    def around(low: float, high: float) -> Axis:
        """Returns the axis with three to seven ticks that holds all from ``low`` to ``high``."""
        wide = max(high - low, 1e-3)
        power = 10.0 ** math.floor(math.log10(wide))
        step = next(power * part for part in (0.2, 0.5, 1.0, 2.0) if wide / (power * part) <= 5)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        return Axis(tuple(round(step * count, 12) for count in range(first, max(last, first + 1) + 1)))

    def share(self, figure: float) -> float:
        """Returns the place of a figure, 0 at the first tick and 1 at the last."""
        return (figure - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])


@dataclass(frozen=True)
class Frontier:
    """A result on the area of a plot. Rows with fewer prompts than the reference are left out, as they mislead."""

    result: TuningResult
    theme: Theme
    area: QRectF
    across: Axis
    up: Axis

    @staticmethod
    def fitted(result: TuningResult, theme: Theme, area: QRectF) -> Frontier:
        """Returns it with axes that hold all drawn rows."""
        rows = drawn(result)
        lows, highs = zip(*(row.interval for row in rows), strict=True)
        steps = [row.steps for row in rows]
        up = Axis.around(100 * min(lows), 100 * max(highs))
        return Frontier(result, theme, area, Axis.around(min(steps), max(steps)), up)

    def place(self, row: TuningRow) -> QPointF:
        return QPointF(self._x(row.steps), self._y(row.rate))

    def _x(self, steps: float) -> float:
        return self.area.left() + INSET + (self.area.width() - 2 * INSET) * self.across.share(steps)

    def _y(self, rate: float) -> float:
        return self.area.bottom() - INSET - (self.area.height() - 2 * INSET) * self.up.share(100 * rate)

    def paint(self, painter: QPainter) -> None:
        self._paint_axes(painter)
        styles = dict(zip(RULES, pens(self.theme), strict=True))
        for acceptance, style in styles.items():
            own = [row for row in drawn(self.result) if row.candidate.acceptance == acceptance]
            own.sort(key=lambda row: row.candidate.threshold)
            for variation in dict.fromkeys(row.candidate.variation for row in own):
                rows = [row for row in own if row.candidate.variation == variation]
                self._paint_line(painter, style, rows)
                for row in rows:
                    self._paint_row(painter, style, row)
        chosen, usual = self.result.chosen, self.result.usual
        named = tr("the model's own: {value}", value=_value(usual))
        taken = self._paint_ring(painter, usual, Qt.PenStyle.DotLine, named, QRectF())
        if chosen is not usual:
            named = tr("chosen: {value}", value=_value(chosen))
            self._paint_ring(painter, chosen, Qt.PenStyle.SolidLine, named, taken)

    def _paint_axes(self, painter: QPainter) -> None:
        metrics, area = painter.fontMetrics(), self.area
        ink, rule = color(self.theme.faint_ink), QPen(color(self.theme.line), 1)
        for tick in self.up.ticks:
            y, text = self._y(tick / 100), f"{tick:g} %"
            painter.setPen(rule)
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(ink)
            at = QPointF(area.left() - 8 - metrics.horizontalAdvance(text), y + metrics.ascent() / 2 - 1)
            painter.drawText(at, text)
        for tick in self.across.ticks:
            x, text = self._x(tick), f"{tick:g}"
            painter.setPen(rule)
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
            painter.setPen(ink)
            painter.drawText(QPointF(x - metrics.horizontalAdvance(text) / 2, area.bottom() + metrics.height()), text)
        under = QRectF(area.left(), area.bottom() + metrics.height() + 2, area.width(), metrics.height() + 4)
        painter.drawText(under, Qt.AlignmentFlag.AlignCenter, tr("steps of an answer, on average"))

    def _paint_line(self, painter: QPainter, style: SeriesPen, rows: Sequence[TuningRow]) -> None:
        """Joins the thresholds of a rule, with dots if other settings were varied, too."""
        shade = QColor(style.shade)
        shade.setAlpha(110)
        is_varied = any(row.candidate.variation for row in rows)
        painter.setPen(QPen(shade, 1.2, Qt.PenStyle.DotLine if is_varied else Qt.PenStyle.SolidLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF([self.place(row) for row in rows]))

    def _paint_row(self, painter: QPainter, style: SeriesPen, row: TuningRow) -> None:
        middle, shade = self.place(row), QColor(style.shade)
        low, high = (self._y(end) for end in row.interval)
        shade.setAlpha(150)
        painter.setPen(QPen(shade, 1.2))
        painter.drawLine(QPointF(middle.x(), low), QPointF(middle.x(), high))
        for y in (low, high):
            painter.drawLine(QPointF(middle.x() - BAR, y), QPointF(middle.x() + BAR, y))
        is_varied = bool(row.candidate.variation)
        painter.setPen(QPen(color(style.shade), 1.6) if is_varied else Qt.PenStyle.NoPen)
        painter.setBrush(color(self.theme.surface if is_varied else style.shade))
        draw_mark(painter, style.mark, middle)

    def _paint_ring(self, painter: QPainter, row: TuningRow, dashes: Qt.PenStyle, text: str, taken: QRectF) -> QRectF:
        """Marks a row, and names it above the bars around it, or below them if there is no room.

        Args:
            taken: the place of another name, which this one stays above.

        Returns:
            The place of the name.
        """
        middle, metrics, area = self.place(row), painter.fontMetrics(), self.area
        painter.setPen(QPen(color(self.theme.ink), 1.6, dashes))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawEllipse(middle, RING, RING)
        width = metrics.horizontalAdvance(text)
        x = min(max(middle.x() - width / 2, area.left() + 4), area.right() - width - 4)
        around = [one for one in drawn(self.result) if abs(self._x(one.steps) - x - width / 2) < width / 2 + 4]
        y = min(self._y(one.interval[1]) for one in around) - 5
        if QRectF(x - 2, y - metrics.ascent(), width + 4, metrics.height()).intersects(taken):
            y = taken.top() - metrics.descent() - 1
        if y - metrics.ascent() < area.top():
            y = min(max(self._y(one.interval[0]) for one in around) + metrics.ascent() + 3, area.bottom() - 4)
        place = QRectF(x - 2, y - metrics.ascent(), width + 4, metrics.height())
        painter.fillRect(place, color(self.theme.surface))
        painter.setPen(color(self.theme.ink))
        painter.drawText(QPointF(x, y), text)
        return place


def drawn(result: TuningResult) -> list[TuningRow]:
    """Returns the rows that have answered as many prompts as the reference."""
    return [row for row in result.rows if row.count == result.usual.count]


def paint_result(painter: QPainter, size: QSize, result: TuningResult, theme: Theme) -> Frontier:
    """Paints a result with its legend, and returns where its rows stand."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setFont(QFont(caption_font()))
    painter.fillRect(0, 0, size.width(), size.height(), color(theme.surface))
    metrics = painter.fontMetrics()
    top = _paint_legend(painter, size.width(), result, theme)
    left = metrics.horizontalAdvance("100.5 %") + 12
    area = QRectF(left, top + 8, size.width() - left - 16, size.height() - top - 8 - 2.6 * metrics.height())
    placed = Frontier.fitted(result, theme, area)
    placed.paint(painter)
    return placed


def _paint_legend(painter: QPainter, width: int, result: TuningResult, theme: Theme) -> float:
    """Paints the names of the rules in rows, and what a bar is; returns where they end."""
    metrics = painter.fontMetrics()
    height, x, y = metrics.height() * 1.5, 12.0, metrics.height() * 1.2
    for acceptance, style in zip(RULES, pens(theme), strict=True):
        text = option_title(ACCEPTANCE, acceptance)
        needed = 14 + metrics.horizontalAdvance(text)
        if x + needed > width - 8 and x > 12:
            x, y = 12.0, y + height
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color(style.shade))
        draw_mark(painter, style.mark, QPointF(x + 5, y - metrics.ascent() / 2 + 1))
        painter.setPen(color(theme.ink))
        painter.drawText(QPointF(x + 15, y), text)
        x += needed + LEGEND_GAP
    painter.setPen(color(theme.faint_ink))
    for line in _captions(result):
        y += height
        painter.drawText(QPointF(12, y), metrics.elidedText(line, Qt.TextElideMode.ElideRight, width - 20))
    return y


def _captions(result: TuningResult) -> list[str]:
    """Returns lines on what was measured, and on open marks if there are any."""
    said = trn(
        "right answers of {model}: {task}, {count} prompt; bars are 95 % intervals",
        "right answers of {model}: {task}, {count} prompts; bars are 95 % intervals",
        result.usual.count,
        model=result.model,
        task=result.task,
    )
    left = len(result.rows) - len(drawn(result))
    if left:
        said = f"{said}; {trn('{count} rule was dropped', '{count} rules were dropped', left)}"
    if not any(row.candidate.variation for row in drawn(result)):
        return [said]
    return [said, tr("open marks: also other temperatures, or an end of blocks that stall")]


def _value(row: TuningRow) -> str:
    """Returns the row's threshold, and in short what else was varied."""
    parts, others = [f"{row.candidate.threshold:g}"], dict(row.candidate.variation)
    if "t_max" in others:
        parts.append(tr("temperature {start} to {end}", start=f"{others['t_max']:g}", end=f"{others['t_min']:g}"))
    if "stall_steps" in others:
        parts.append(tr("stalled after {count}", count=others["stall_steps"]))
    return tr(", ").join(parts)


def save_plot(result: TuningResult, path: Path, theme: Theme) -> None:
    """Writes the plot as PNG or SVG, by the path's ending.

    Raises:
        SafelightError: it cannot be written.
    """
    is_written = _save_svg(result, path, theme) if path.suffix.lower() == ".svg" else _save_png(result, path, theme)
    if not is_written:
        raise SafelightError(f"{path} cannot be written. Choose another folder")


def _save_svg(result: TuningResult, path: Path, theme: Theme) -> bool:
    drawing = QSvgGenerator()
    drawing.setFileName(str(path))
    drawing.setSize(SIZE)
    drawing.setViewBox(QRectF(0, 0, SIZE.width(), SIZE.height()))
    painter = QPainter()
    if not painter.begin(drawing):
        return False
    paint_result(painter, SIZE, result, theme)
    return painter.end()


def _save_png(result: TuningResult, path: Path, theme: Theme) -> bool:
    picture = QImage(SIZE * SCALE, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(SCALE)
    painter = QPainter(picture)
    paint_result(painter, SIZE, result, theme)
    painter.end()
    return picture.save(str(path), "PNG")  # type: ignore[call-overload, no-any-return]
