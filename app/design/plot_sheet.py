"""A picture of plots over one axis, cached until they change, with a mark and the pointer over it. pyqtgraph draws
them.

Moving the mark repaints a strip of the picture, not the plots. Knows nothing of what is plotted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.design import themes
from app.design.fonts import caption_font
from app.design.tokens import color

if TYPE_CHECKING:
    from pyqtgraph import GraphicsLayoutWidget, PlotItem

HEADROOM = 1.12  # the scale's maximum, as a factor of its last mark


class LegendLine(NamedTuple):
    """The name of a line, shown next to its plot."""

    text: str
    shade: str
    dashed: bool


class PlotSheet(QWidget):
    """Shows plots over one axis. ``words_at`` returns the tool tip at a position of the axis; empty for none."""

    chosen = Signal(float)  # the position on the axis that was pressed or dragged to
    resized = Signal()  # the plots must be drawn in another size

    def __init__(self, words_at: Callable[[float], str]) -> None:
        super().__init__()
        self._words_at = words_at
        self._picture: QPixmap | None = None
        self._areas: list[QRectF] = []  # the inner area of each plot
        self._span = (0.5, 1.5)  # the range of the axis
        self._mark: float | None = None
        self.setMinimumHeight(144)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def clear(self) -> None:
        self._picture = None
        self.update()

    def draw(
        self,
        graph: GraphicsLayoutWidget,
        plots: Sequence[PlotItem],
        tops: Sequence[str],
        legend: Sequence[Sequence[LegendLine]],
    ) -> None:
        """Draws plots, stacked vertically, at this size and caches the picture.

        Args:
            tops: the text of the last mark of each plot's scale; it stands ``HEADROOM`` under the top.
            legend: the names of each plot's lines.
        """
        graph.resize(self.size())
        graph.ci.layout.activate()
        graph.ci.setGeometry(QRectF(0, 0, self.width(), self.height()))
        graph.setSceneRect(QRectF(0, 0, self.width(), self.height()))
        for plot in plots:
            plot.layout.activate()
            plot.vb.updateMatrix()
        ratio = self.devicePixelRatioF()
        picture = QPixmap(round(self.width() * ratio), round(self.height() * ratio))
        picture.setDevicePixelRatio(ratio)
        picture.fill(color(themes.current().surface_sunken))
        painter = QPainter(picture)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        graph.scene().prepareForPaint()
        rect = QRectF(0, 0, self.width(), self.height())
        graph.scene().render(painter, rect, rect)
        self._areas = [plot.vb.sceneBoundingRect() for plot in plots]
        low, high = plots[0].vb.viewRange()[0]
        self._span = low, high
        painter.setFont(caption_font())
        self._paint_legend(painter, legend)
        self._paint_scales(painter, tops)
        painter.end()
        self._picture = picture
        self._mark = None
        self.update()

    def _paint_legend(self, painter: QPainter, legend: Sequence[Sequence[LegendLine]]) -> None:
        """Paints the names of the lines at the right of their plot."""
        metrics = painter.fontMetrics()
        for area, lines in zip(self._areas, legend, strict=True):
            middle = area.center().y() - (len(lines) - 1) * metrics.height() / 2
            for line in lines:
                pen = QPen(color(line.shade), 2)
                if line.dashed:
                    pen.setStyle(Qt.PenStyle.DashLine)
                painter.setPen(pen)
                x = area.right() + 12
                painter.drawLine(QPointF(x, middle), QPointF(x + 20, middle))
                painter.setPen(color(themes.current().faint_ink))
                painter.drawText(QPointF(x + 28, middle + metrics.ascent() / 2 - 1), line.text)
                middle += metrics.height()

    def _paint_scales(self, painter: QPainter, tops: Sequence[str]) -> None:
        painter.setPen(color(themes.current().faint_ink))
        metrics = painter.fontMetrics()
        for area, top in zip(self._areas, tops, strict=True):
            high = area.bottom() - area.height() / HEADROOM
            for text, y in (("0", area.bottom()), (top, high + metrics.ascent() / 2)):
                painter.drawText(QPointF(area.left() - 6 - metrics.horizontalAdvance(text), y), text)

    def pixel(self, x: float) -> float:
        """Returns the pixels from the left of a position on the axis."""
        area, (low, high) = self._areas[0], self._span
        return area.left() + area.width() * (x - low) / max(1e-9, high - low)

    def set_mark(self, x: float) -> None:
        """Moves the mark to a position on the axis; it stays in the plots while these lag behind a live run."""
        if self._picture is None or not self._areas:
            return
        new = min(self.pixel(x), self._areas[0].right())
        for changed in (self._mark, new):
            if changed is not None:
                self.update(QRect(round(changed) - 3, 0, 7, self.height()))
        self._mark = new

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self._picture is None:
            painter.fillRect(event.rect(), color(themes.current().surface_sunken))
        else:
            rect = QRectF(event.rect())
            ratio = self._picture.devicePixelRatio()
            source = QRectF(rect.x() * ratio, rect.y() * ratio, rect.width() * ratio, rect.height() * ratio)
            painter.drawPixmap(rect, self._picture, source)
            if self._mark is not None and self._areas:
                top, bottom = self._areas[0].top(), self._areas[-1].bottom()
                painter.fillRect(QRectF(self._mark - 0.75, top, 1.5, bottom - top), color(themes.current().accent))
        painter.end()

    def _axis_at(self, pixel: float) -> float | None:
        if self._picture is None or not self._areas:
            return None
        area, (low, high) = self._areas[0], self._span
        return low + (high - low) * (pixel - area.left()) / max(1.0, area.width())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        x = self._axis_at(event.position().x())
        if event.button() == Qt.MouseButton.LeftButton and x is not None:
            self.chosen.emit(x)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x = self._axis_at(event.position().x())
        words = "" if x is None else self._words_at(x)
        if x is None or not words:
            return
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.chosen.emit(x)
        QToolTip.showText(event.globalPosition().toPoint(), words, self)

    def leaveEvent(self, event: QEvent) -> None:
        QToolTip.hideText()
        super().leaveEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.ignore()


@cache
def plot_library() -> Any:
    """Imports and configures pyqtgraph."""
    import pyqtgraph  # a quarter of a second, so only when a plot is drawn

    pyqtgraph.setConfigOptions(antialias=True)
    return pyqtgraph


def plain_plot(graph: GraphicsLayoutWidget, row: int, column: int) -> PlotItem:
    """Another plot in a layout: no buttons, no menu, no mouse; its axes in the theme's inks."""
    plot = graph.addPlot(row=row, col=column)
    plot.hideButtons()
    plot.setMenuEnabled(False)
    plot.setMouseEnabled(False, False)
    for side in ("left", "bottom"):
        axis = plot.getAxis(side)
        axis.setPen(themes.current().line_strong)
        axis.setTextPen(themes.current().faint_ink)
        axis.setTickFont(caption_font())
        axis.enableAutoSIPrefix(False)
    return plot
