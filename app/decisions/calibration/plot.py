"""The reliability plot: the share of right answers over their probability. Knows no model."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.design import themes
from app.design.fonts import caption_font, px
from app.design.tokens import color
from app.system.i18n import tr, trn
from engine.tasks.decisions.calibration import Reliability

LEAST, USUAL = 180, 280  # pixels at 100 %
SHARES = (0, 50, 100)  # of the grid lines, in per cent


class ReliabilityPlot(QWidget):
    """A bar for each tenth of the probability that has answers, as high as their share of right ones.

    With calibrated probabilities the bars end on the diagonal.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._found: Reliability | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMaximumWidth(px(420))

    def show_reliability(self, found: Reliability, title: str) -> None:
        """Shows the reliability at one temperature, which ``title`` names."""
        self._found = found
        self.setAccessibleName(tr("Reliability, {title}", title=title))
        lines = [
            tr(
                "{low} to {high} %: {accuracy} % right of {count}",
                low=round(100 * one.low),
                high=round(100 * one.high),
                accuracy=round(100 * one.accuracy),
                count=one.count,
            )
            for one in found.bins
            if one.count
        ]
        self.setAccessibleDescription("; ".join(lines))
        self.setToolTip("\n".join(lines))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(px(USUAL), px(USUAL))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(LEAST), px(USUAL))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(caption_font())
        metrics = painter.fontMetrics()
        left = metrics.horizontalAdvance("100 %") + 8
        below = 2 * metrics.height() + 8
        area = QRectF(left, metrics.height(), self.width() - left - 8, self.height() - below - metrics.height())
        self._paint_frame(painter, area)
        if self._found is not None:
            self._paint_bars(painter, area, self._found)
        pen = QPen(color(themes.current().ink), 1, Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.drawLine(area.bottomLeft(), area.topRight())
        painter.end()

    def _paint_frame(self, painter: QPainter, area: QRectF) -> None:
        metrics = painter.fontMetrics()
        for share in SHARES:
            y = area.bottom() - area.height() * share / 100
            x = area.left() + area.width() * share / 100
            painter.setPen(QPen(color(themes.current().line), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(color(themes.current().faint_ink))
            text = f"{share} %"
            painter.drawText(
                QPointF(area.left() - 8 - metrics.horizontalAdvance(text), y + metrics.ascent() / 2 - 1), text
            )
            width = metrics.horizontalAdvance(text)
            painter.drawText(
                QPointF(min(max(x - width / 2, area.left()), area.right() - width), area.bottom() + metrics.height()),
                text,
            )
        under = QRectF(area.left(), area.bottom() + metrics.height() + 2, area.width(), metrics.height() + 4)
        painter.drawText(under, Qt.AlignmentFlag.AlignCenter, tr("probability of the answer"))

    def _paint_bars(self, painter: QPainter, area: QRectF, found: Reliability) -> None:
        step = area.width() / len(found.bins)
        for place, one in enumerate(found.bins):
            if not one.count:
                continue
            height = max(2.0, area.height() * one.accuracy)
            bar = QRectF(area.left() + place * step + 2, area.bottom() - height, step - 4, height)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color(themes.current().accent))
            painter.drawRect(bar)
            painter.setPen(color(themes.current().faint_ink))
            count = f"{one.count:,}"
            width = painter.fontMetrics().horizontalAdvance(count)
            if width <= step:
                painter.drawText(QPointF(bar.center().x() - width / 2, max(bar.top(), area.top() + 2) - 3), count)


def legend() -> str:
    """Returns the explanation of the plots."""
    return tr(
        "Bars: the share of right answers, by their probability; over each bar, the number of answers. On the dashed "
        "line probabilities are right; below it the model is too sure."
    )


def examples_text(count: int) -> str:
    """Returns a count as a text like "200 answers"."""
    return trn("{count} answer", "{count} answers", count)
