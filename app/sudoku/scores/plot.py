"""The running rate of each bin in the order of puzzles, with its interval, drawn by pyqtgraph. Knows no run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, Qt, QTimer, Slot
from PySide6.QtGui import QColor, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.design import themes
from app.design.fonts import TEXT_SMALL, caption_font, px
from app.design.plot_sheet import plain_plot, plot_library
from app.design.series import SeriesLegend, pens
from app.state.intervals import wilson
from app.state.sudoku.scores import Scoreboard
from app.sudoku.scores.words import short_with_givens, spoken
from app.system.i18n import tr
from engine.tasks.sudoku import Bin

if TYPE_CHECKING:
    from pyqtgraph import GraphicsLayoutWidget, PlotItem

REDRAW_MS = 150  # between two drawings while results come in
BAND = 36  # opacity of an interval, of 255
LEAST_HEIGHT = 152  # pixels at 100 %
SHARES = (0, 50, 100)  # with a line each, per cent


class ScorePlot(QWidget):
    """A plot beside another for each bin with results; above them who is who, where there are several contenders."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._scores = Scoreboard()
        self._graph: GraphicsLayoutWidget | None = None  # once it is needed
        self.plots: dict[str, PlotItem] = {}  # by bin
        self.legend = SeriesLegend(self)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self._column.addWidget(self.legend)
        self.setMinimumHeight(px(LEAST_HEIGHT))
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.draw)
        themes.changed.connect(self._forget)
        self.setAccessibleName(tr("Running rates"))

    def show_scores(self, scores: Scoreboard, *, at_once: bool = False) -> None:
        """Show these, soon, as they are by then."""
        self._scores = scores
        if at_once or not self._timer.isActive():
            self._timer.start(0 if at_once else REDRAW_MS)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._forget()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._timer.start(0)

    @Slot()
    def _forget(self) -> None:
        """What is drawn is drawn anew, in other colours or sizes."""
        if self._graph is not None:
            self._column.removeWidget(self._graph)
            self._graph.hide()
            self._graph.deleteLater()
            self._graph, self.plots = None, {}
        self._timer.start(0)

    def _show_legend(self) -> None:
        names = self._scores.contenders
        self.legend.show_names(names, tr("Contenders: {names}", names=", ".join(names)))

    # ---------------------------------------------------------------- drawing

    @Slot()
    def draw(self) -> None:
        """Draw what there is now."""
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
            plot.titleLabel.setMinimumWidth(0)  # or it keeps the plot from becoming narrow
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
        for share in SHARES:  # not pyqtgraph's grid, with which it hides marks near the ends
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
        scale = self.devicePixelRatioF()  # pyqtgraph's pens count the screen's own pixels
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
    """Numbers on an axis from 0: the last one, and the half where it is whole."""
    return [0, most // 2, most] if most > 1 and most % 2 == 0 else [0, most]
