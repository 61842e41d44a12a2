"""The plots of the running rate of solved puzzles, by bin, with intervals, drawn by pyqtgraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QColor, QShowEvent
from PySide6.QtWidgets import QWidget

from app.design import themes
from app.design.fonts import TEXT_SMALL, caption_font, px
from app.design.layouts import column_of
from app.design.plot_sheet import plain_plot, plot_library
from app.design.series import SeriesLegend, pens
from app.state.intervals import wilson
from app.state.sudoku.scores import Scoreboard
from app.sudoku.words import short_with_givens, spoken
from app.system.i18n import tr
from app.system.timers import later
from engine.tasks.sudoku import Bin

if TYPE_CHECKING:
    from pyqtgraph import GraphicsLayoutWidget, PlotItem

REDRAW_MS = 150  # between two drawings while results arrive
BAND = 36  # opacity of an interval, of 255
LEAST_HEIGHT = 152  # pixels at 100 %
SHARES = (0, 50, 100)  # of the grid lines, in per cent


class ScorePlot(QWidget):
    """A row of plots, one for each bin with results, under a legend if there are several contenders."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._scores = Scoreboard()
        self._graph: GraphicsLayoutWidget | None = None  # made when first needed
        self.plots: dict[str, PlotItem] = {}  # by bin
        self.legend = SeriesLegend(self)
        self._column = column_of(self.legend, spacing=8)
        self.setLayout(self._column)
        self.setMinimumHeight(px(LEAST_HEIGHT))
        self._timer = later(self, self.draw)
        themes.changed.connect(self._forget)
        self.setAccessibleName(tr("Running rates"))

    def show_scores(self, scores: Scoreboard, *, at_once: bool = False) -> None:
        """Draws scores after ``REDRAW_MS`` or ``at_once``, with the results that are added until then."""
        self._scores = scores
        if at_once or not self._timer.isActive():
            self._timer.start(0 if at_once else REDRAW_MS)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._timer.start(0)

    @Slot()
    def _forget(self) -> None:
        """Drops the drawing, so that it is made again in other colours or sizes."""
        if self._graph is not None:
            self._column.removeWidget(self._graph)
            self._graph.hide()
            self._graph.deleteLater()
            self._graph, self.plots = None, {}
        self._timer.start(0)

    def _show_legend(self) -> None:
        names = self._scores.contenders
        self.legend.show_names(names, tr("Contenders: {names}", names=", ".join(names)))

    @Slot()
    def draw(self) -> None:
        """Draws the current scores."""
        self.setAccessibleDescription(spoken(self._scores))
        self._show_legend()
        if not self.isVisible():
            return
        bins = self._scores.bins
        if list(self.plots) != bins and self._graph is not None:
            self._forget()
        if not bins:
            return
        if self._graph is None:
            self._build(bins)
        for name in bins:
            self._fill(name)

    def _build(self, bins: list[Bin]) -> None:
        theme = themes.current()
        graph = self._graph = plot_library().GraphicsLayoutWidget()
        graph.setBackground(theme.surface)
        graph.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        graph.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        graph.setAccessibleName(tr("Running rates"))
        graph.setFrameShape(graph.Shape.NoFrame)
        graph.ci.layout.setContentsMargins(0, 0, 8, 0)
        graph.ci.layout.setSpacing(16)
        font = caption_font()
        for column, name in enumerate(bins):
            plot = self.plots[name] = plain_plot(graph, 0, column)
            plot.setTitle(short_with_givens(name), color=theme.ink, size=f"{px(TEXT_SMALL)}px")
            plot.titleLabel.item.setFont(font)
            plot.titleLabel.setMinimumWidth(0)  # else it limits how narrow the plot can become
            for side in ("left", "bottom"):
                plot.getAxis(side).setStyle(hideOverlappingLabels=False)
            left = plot.getAxis("left")
            left.setTicks([[(share, f"{share} %") for share in SHARES], []])
            left.setWidth(px(52))
            plot.getAxis("bottom").setHeight(px(36))
            style = {"font-size": f"{px(TEXT_SMALL)}px"}
            plot.getAxis("bottom").setLabel(tr("puzzles run"), color=theme.faint_ink, **style)
            plot.setYRange(0, 100, padding=0.05)
        self._column.addWidget(graph, 1)

    def _fill(self, name: str) -> None:
        pyqtgraph, plot = plot_library(), self.plots[name]
        plot.clear()
        for share in SHARES:  # pyqtgraph's own grid would hide tick labels near the ends
            plot.addItem(pyqtgraph.InfiniteLine(share, angle=0, pen=pyqtgraph.mkPen(themes.current().line, width=1)))
        most = 1
        for place, contender in enumerate(self._scores.contenders):
            rates = self._scores.running(contender, name)
            if rates:
                most = max(most, len(rates))
                self._draw_contender(plot, rates, place)
        plot.setXRange(0, most * 1.04 + 0.5, padding=0)
        plot.getAxis("bottom").setTicks([[(tick, str(tick)) for tick in ticks(most)], []])

    def _draw_contender(self, plot: PlotItem, rates: list[float], place: int) -> None:
        pyqtgraph = plot_library()
        known = pens(themes.current())
        pen = known[place % len(known)]
        numbers = np.arange(1, len(rates) + 1)
        bounds = np.array([wilson(round(rate * n), n) for n, rate in enumerate(rates, 1)]) * 100
        shares = np.array(rates) * 100
        band = QColor(pen.shade)
        band.setAlpha(BAND)
        edges = [pyqtgraph.PlotCurveItem(numbers, bounds[:, side]) for side in (0, 1)]
        plot.addItem(pyqtgraph.FillBetweenItem(*edges, brush=pyqtgraph.mkBrush(band)))
        scale = self.devicePixelRatioF()  # pyqtgraph's pens are in device pixels
        stroke = pyqtgraph.mkPen(pen.shade, width=2 * scale, style=pen.dashes)
        plot.addItem(pyqtgraph.PlotDataItem(numbers, shares, pen=stroke))
        end, (low, high) = shares[-1:], bounds[-1]
        whisker = pyqtgraph.ErrorBarItem(
            x=numbers[-1:],
            y=end,
            top=np.array([high - end[0]]),
            bottom=np.array([end[0] - low]),
            beam=0.03 * len(rates),
            pen=pyqtgraph.mkPen(pen.shade, width=1.5 * scale),
        )
        plot.addItem(whisker)
        dot = pyqtgraph.ScatterPlotItem(numbers[-1:], end, symbol=pen.mark, size=9, brush=pen.shade, pen=None)
        plot.addItem(dot)


def ticks(most: int) -> list[int]:
    """Returns the ticks of an axis from 0 to ``most``, with the middle one if it is a whole number."""
    return [0, most // 2, most] if most > 1 and most % 2 == 0 else [0, most]
