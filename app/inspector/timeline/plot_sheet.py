"""The picture of the plots, kept until they change, with the mark of the frame on show and the pointer over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QFont, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.design.fonts import TEXT_SMALL, px, ui_font
from app.design.tokens import color
from app.inspector.words import tick
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.inspector.timeline.plots import Plots

HEADROOM = 1.12  # of the scale above its last mark


def small_font() -> QFont:
    """The face of captions."""
    font = ui_font()
    font.setPixelSize(px(TEXT_SMALL))
    return font


class Sheet(QWidget):
    """The picture of the plots, the mark of the frame on show, and the pointer."""

    def __init__(self, plots: Plots) -> None:
        super().__init__()
        self._plots = plots
        self._picture: QPixmap | None = None
        self._areas: list[QRectF] = []  # of each plot's inside
        self._span = (0.5, 1.5)  # of the axis
        self._mark: float | None = None
        self.setMinimumHeight(144)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the timeline goes to the same places
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName(tr("Plots over the steps"))

    def clear(self) -> None:
        self._picture = None
        self.update()

    def take(self, graph: Any, rows: list[Any]) -> None:
        """Draw a layout of plots at this size and keep the picture."""
        graph.resize(self.size())
        graph.ci.layout.activate()
        graph.ci.setGeometry(QRectF(0, 0, self.width(), self.height()))
        graph.setSceneRect(QRectF(0, 0, self.width(), self.height()))
        for plot in rows:
            plot.layout.activate()
            plot.vb.updateMatrix()
        ratio = self.devicePixelRatioF()
        picture = QPixmap(round(self.width() * ratio), round(self.height() * ratio))
        picture.setDevicePixelRatio(ratio)
        picture.fill(color(self._plots.theme.surface_sunken))
        painter = QPainter(picture)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        graph.scene().prepareForPaint()
        rect = QRectF(0, 0, self.width(), self.height())
        graph.scene().render(painter, rect, rect)
        self._areas = [plot.vb.sceneBoundingRect() for plot in rows]
        self._span = tuple(rows[0].vb.viewRange()[0])
        self._paint_legend(painter)
        self._paint_scales(painter, [self._plots.tops[plot] for plot in rows])
        painter.end()
        self._picture = picture
        self._mark = None
        self.move_mark()
        self.update()

    def _paint_legend(self, painter: QPainter) -> None:
        """The names of the lines, right of their plot."""
        theme = self._plots.theme
        painter.setFont(small_font())
        metrics = painter.fontMetrics()
        for area, entries in zip(self._areas, self._plots.legend(), strict=True):
            middle = area.center().y() - (len(entries) - 1) * metrics.height() / 2
            for text, shade, dashed in entries:
                pen = QPen(color(shade), 2)
                if dashed:
                    pen.setStyle(Qt.PenStyle.DashLine)
                painter.setPen(pen)
                x = area.right() + 12
                painter.drawLine(QPointF(x, middle), QPointF(x + 20, middle))
                painter.setPen(color(theme.faint_ink))
                painter.drawText(QPointF(x + 28, middle + metrics.ascent() / 2 - 1), text)
                middle += metrics.height()

    def _paint_scales(self, painter: QPainter, tops: list[float]) -> None:
        painter.setFont(small_font())
        painter.setPen(color(self._plots.theme.faint_ink))
        metrics = painter.fontMetrics()
        for area, top in zip(self._areas, tops, strict=True):
            high = area.bottom() - area.height() / HEADROOM
            for text, y in (("0", area.bottom()), (tick(top), high + metrics.ascent() / 2)):
                painter.drawText(QPointF(area.left() - 6 - metrics.horizontalAdvance(text), y), text)

    # ---------------------------------------------------------------- the mark

    def _pixel(self, x: float) -> float:
        area, (low, high) = self._areas[0], self._span
        return area.left() + area.width() * (x - low) / max(1e-9, high - low)

    def move_mark(self) -> None:
        """Put the mark at the frame on show."""
        frame = self._plots.player.frame
        if self._picture is None or frame is None or not self._areas:
            return
        new = self._pixel(self._plots.x_of(frame))
        for x in (self._mark, new):
            if x is not None:
                self.update(QRect(round(x) - 3, 0, 7, self.height()))
        self._mark = new

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._plots.theme
        if self._picture is None:
            painter.fillRect(event.rect(), color(theme.surface_sunken))
        else:
            rect = QRectF(event.rect())
            ratio = self._picture.devicePixelRatio()
            source = QRectF(rect.x() * ratio, rect.y() * ratio, rect.width() * ratio, rect.height() * ratio)
            painter.drawPixmap(rect, self._picture, source)
            if self._mark is not None and self._areas:
                top, bottom = self._areas[0].top(), self._areas[-1].bottom()
                painter.fillRect(QRectF(self._mark - 0.75, top, 1.5, bottom - top), color(theme.accent))
        painter.end()

    # ---------------------------------------------------------------- pointing

    def _place_at(self, x: float) -> int | None:
        if self._picture is None or not self._areas:
            return None
        area, (low, high) = self._areas[0], self._span
        return self._plots.place_at(low + (high - low) * (x - area.left()) / max(1.0, area.width()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._go(event.position().x())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        place = self._place_at(event.position().x())
        if place is None:
            return
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._go(event.position().x())
        where: QPoint = event.globalPosition().toPoint()
        QToolTip.showText(where, "\n".join(self._plots.words_at(place)), self)

    def leaveEvent(self, event: QEvent) -> None:
        QToolTip.hideText()
        super().leaveEvent(event)

    def _go(self, x: float) -> None:
        place = self._place_at(x)
        if place is not None:
            self._plots.player.pause()
            self._plots.player.go(place)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._plots.redraw()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.ignore()
