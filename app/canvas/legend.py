"""A legend: small drawn samples with their words, and a colour scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QHelpEvent, QLinearGradient, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.canvas.geometry import Rect, flow
from app.design import themes
from app.design.controls import grow_with_width, show_tip
from app.design.fonts import caption_font, px, text_percent
from app.design.tokens import Theme, color, entropy_color, set_inks

SAMPLE = 16  # pixels, at 100 %
BAR = 96
SPACING = 16
Draw = Callable[[QPainter, QRectF, Theme], None]


@dataclass(frozen=True)
class LegendEntry:
    """A sample and its meaning. With ``draw`` None the sample is the colour scale from its lower to its upper end."""

    words: str
    draw: Draw | None
    tip: str = ""  # what the words mean, shown under the pointer


class Legend(QWidget):
    """A widget with legend entries laid out in rows, like words in a paragraph."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: tuple[LegendEntry, ...] = ()
        self._widths: list[int] = []
        self._widths_at = 0  # text size in percent at which they were measured; kept because layouts ask often
        themes.changed.connect(self.updateGeometry)
        grow_with_width(self, QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)

    def set_entries(self, entries: Sequence[LegendEntry]) -> None:
        if tuple(entries) != self._entries:
            self._entries = tuple(entries)
            self._widths_at = 0
            self.updateGeometry()
            self.update()

    @property
    def words(self) -> list[str]:
        return [entry.words for entry in self._entries]

    def heightForWidth(self, width: int) -> int:
        return self._rects(width)[1]

    def sizeHint(self) -> QSize:
        width = max(self.width(), 200)
        return QSize(width, self.heightForWidth(width))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(caption_font())
        for entry, rect in zip(self._entries, self._rects(self.width())[0], strict=True):
            paint_entry(painter, entry, rect, themes.current())

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            show_tip(event, self.tip_at(event.pos()), self)
            return True
        return super().event(event)

    def tip_at(self, point: QPoint) -> str:
        """Returns what the entry at a point means; empty if there is none."""
        rects = self._rects(self.width())[0]
        return next((e.tip for e, rect in zip(self._entries, rects, strict=True) if QRect(*rect).contains(point)), "")

    def _rects(self, width: int) -> tuple[list[Rect], int]:
        if self._widths_at != text_percent():
            self._widths_at = text_percent()
            metrics = QFontMetricsF(caption_font())
            self._widths = [entry_width(entry, metrics) for entry in self._entries]
        return flow(self._widths, width, px(20), px(SPACING))


def entry_width(entry: LegendEntry, metrics: QFontMetricsF, size: Callable[[int], int] = px) -> int:
    """Returns the width of a sample and its words in pixels. ``size`` scales a length given at 100 %."""
    return size(SAMPLE if entry.draw is not None else BAR) + size(6) + math.ceil(metrics.horizontalAdvance(entry.words))


def paint_entry(
    painter: QPainter, entry: LegendEntry, rect: Rect, theme: Theme, size: Callable[[int], int] = px
) -> None:
    """Paints a sample and its words in the painter's font."""
    width = size(SAMPLE if entry.draw is not None else BAR)
    sample = QRectF(rect.x, rect.y + (rect.height - size(SAMPLE)) / 2, width, size(SAMPLE))
    if entry.draw is not None:
        entry.draw(painter, sample, theme)
    else:
        paint_scale(painter, sample.adjusted(0, size(4), 0, -size(4)), theme)
    painter.setPen(color(theme.faint_ink))
    words = QRectF(rect.x + width + size(6), rect.y, rect.width, rect.height)
    painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, entry.words)


def paint_scale(painter: QPainter, bar: QRectF, theme: Theme) -> None:
    """Paints the colour scale from its lower to its upper end."""
    shades = QLinearGradient(QPointF(bar.left(), 0), QPointF(bar.right(), 0))
    for stop in range(16):
        shades.setColorAt(stop / 15, entropy_color(stop / 15, theme))
    painter.fillRect(bar, shades)
    set_inks(painter, QPen(color(theme.line_strong), 1), Qt.BrushStyle.NoBrush)
    painter.drawRect(bar)
