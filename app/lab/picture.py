"""The picture of a card: the bars of an example, painted in the theme in use."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.design import themes
from app.design.fonts import caption_font, px
from app.design.tokens import color
from app.lab.examples import Bar, CardExample

HEIGHT = 132  # pixels at 100 %
SIDE, BAR, GAP = 16, 12, 8
MOST_NAME = 0.3  # of the width


class BarPicture(QWidget):
    """A line on the source, and below it a bar for each entry. Empty without an example. Not interactive."""

    def __init__(self, example: CardExample | None) -> None:
        super().__init__()
        self._example = example
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    @property
    def words(self) -> str:
        """The picture in words, for the card's description."""
        if self._example is None:
            return ""
        bars = ", ".join(f"{bar.name} {bar.figure}" for bar in self._example.bars)
        return f"{self._example.source}: {bars}"

    def sizeHint(self) -> QSize:
        return QSize(px(200), px(HEIGHT))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = themes.current()
        painter.setPen(color(theme.line))
        painter.setBrush(color(theme.surface_sunken))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        if self._example is not None:
            self._paint_example(painter, self._example)
        painter.end()

    def _paint_example(self, painter: QPainter, example: CardExample) -> None:
        painter.setFont(caption_font())
        metrics = QFontMetricsF(caption_font())
        inside = QRectF(self.rect()).adjusted(px(SIDE), px(SIDE) / 2, -px(SIDE), -px(SIDE) / 2)
        high = inside.height() / (len(example.bars) + 1)
        row = QRectF(inside.x(), inside.y(), inside.width(), high)
        painter.setPen(color(themes.current().faint_ink))
        shown = metrics.elidedText(example.source, Qt.TextElideMode.ElideRight, row.width())
        painter.drawText(row, Qt.AlignmentFlag.AlignVCenter, shown)
        widest = max(metrics.horizontalAdvance(bar.name) for bar in example.bars)
        name = min(widest, MOST_NAME * row.width())
        figure = max(metrics.horizontalAdvance(bar.figure) for bar in example.bars)
        for place, bar in enumerate(example.bars):
            row.translate(0, high)
            self._paint_bar(painter, row, bar, (name, figure), is_first=place == 0)

    def _paint_bar(
        self, painter: QPainter, row: QRectF, bar: Bar, widths: tuple[float, float], *, is_first: bool
    ) -> None:
        theme, (name, figure) = themes.current(), widths
        painter.setPen(color(theme.ink))
        shown = painter.fontMetrics().elidedText(bar.name, Qt.TextElideMode.ElideRight, int(name) + 1)
        painter.drawText(row, Qt.AlignmentFlag.AlignVCenter, shown)
        painter.drawText(row, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, bar.figure)
        track = row.adjusted(name + px(GAP), 0, -figure - px(GAP), 0)
        track.setHeight(px(BAR))
        track.moveTop(row.center().y() - track.height() / 2)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color(theme.line))
        painter.drawRoundedRect(track, 2, 2)
        track.setWidth(max(2.0, bar.share * track.width()))
        painter.setBrush(color(theme.accent if is_first else theme.line_strong))
        painter.drawRoundedRect(track, 2, 2)
