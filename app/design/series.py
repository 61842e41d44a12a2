"""Styles that distinguish the series of a plot, and the legend that names them. Knows nothing of what the series
are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.design import themes
from app.design.fonts import caption_font, px
from app.design.tokens import Theme, color


@dataclass(frozen=True)
class SeriesPen:
    """The style of a series: colour, dashes, and the mark at the line's end."""

    shade: str
    dashes: Qt.PenStyle
    mark: str  # its name in pyqtgraph


def pens(theme: Theme) -> tuple[SeriesPen, ...]:
    """Returns the styles in the order of the series; the fifth series has the first style again."""
    style = Qt.PenStyle
    return (
        SeriesPen(theme.accent, style.SolidLine, "o"),
        SeriesPen(theme.remelted, style.DashLine, "s"),
        SeriesPen(theme.accepted, style.DashDotLine, "t1"),
        SeriesPen(theme.ink, style.DotLine, "d"),
    )


class SeriesLegend(QWidget):
    """The names of the series with their styles; hidden if there is only one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names: list[str] = []
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.hide()

    def show_names(self, names: Sequence[str], summary: str) -> None:
        """Names the series, in the order of ``pens``; ``summary`` says the same in a line, for screen readers."""
        self._names = list(names)
        self.setAccessibleName(summary)
        self.setVisible(len(names) > 1)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(px(240), px(20))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(caption_font())
        metrics = painter.fontMetrics()
        middle = self.height() / 2
        room = (self.width() - 16 * len(self._names)) / max(1, len(self._names)) - 44
        x = 0.0
        for place, name in enumerate(self._names):
            pen = pens(themes.current())[place % 4]
            painter.setPen(QPen(color(pen.shade), 2, pen.dashes))
            painter.drawLine(QPointF(x, middle), QPointF(x + 36, middle))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color(pen.shade))
            draw_mark(painter, pen.mark, QPointF(x + 18, middle))
            painter.setPen(color(themes.current().ink))
            shown = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, round(max(room, 24)))
            painter.drawText(QPointF(x + 44, middle + (metrics.ascent() - metrics.descent()) / 2), shown)
            x += 44 + metrics.horizontalAdvance(shown) + 24
        painter.end()


def draw_mark(painter: QPainter, mark: str, middle: QPointF) -> None:
    """Draws a series' mark with the painter's brush."""
    reach = 4.5
    shapes = {
        "s": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "t1": ((0, -1), (1, 1), (-1, 1)),
        "d": ((0, -1), (0.8, 0), (0, 1), (-0.8, 0)),
    }
    if mark == "o":
        painter.drawEllipse(QRectF(middle.x() - reach, middle.y() - reach, 2 * reach, 2 * reach))
    else:
        painter.drawPolygon(QPolygonF([middle + QPointF(reach * x, reach * y) for x, y in shapes[mark]]))
