"""Plots of a run's figures over its steps, with the current frame marked. pyqtgraph draws them when they change.

The plots are kept as a picture, and the mark moves over it: a new frame repaints a strip of it, not three plots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import (
    QFontMetrics,
    QHideEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QWidget

from app.design import themes
from app.design.controls import button, label
from app.design.fonts import TEXT_SMALL, caption_font, px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.plot_sheet import HEADROOM, LegendLine, PlotSheet, plain_plot, plot_library
from app.inspector.timeline.overview import BlockFigures, Overview
from app.inspector.timeline.steps_area import numbered_steps
from app.inspector.words import tick
from app.player.player import Player
from app.state.run.replay import NOISE, Frame
from app.system.i18n import tr, trn
from app.system.timers import later
from engine import step_number

if TYPE_CHECKING:
    from pyqtgraph import GraphicsLayoutWidget, PlotItem

ENTROPY, CELLS, DIVERGENCE, PLACE = range(4)  # the rows
LEAST_TICK = 36  # least pixels at 100 % between two numbers of the axis
LEAST_HEIGHT = 300  # of the plots, in pixels at 100 %
DOT = 4  # diameter in pixels
REDRAW_MS = 120  # interval of redrawing while figures are still being computed


def round_up(value: float) -> float:
    """Returns the next of …, 1, 2, 5, 10, 20, …; 1 for values of 0 and less."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if value <= step * unit * (1 + 1e-9))


class Plots(QWidget):
    """Four plots: mean entropy; cells accepted, changed and settled; KL to the previous and to the last step; the
    places in the text of the cells that settle."""

    def __init__(self, player: Player, overview: Overview, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._player, self._overview = player, overview
        self._graph: GraphicsLayoutWidget | None = None  # made when first needed
        self._rows: list[PlotItem] = []
        self.whole = button(tr("Whole run"), tr("Plot the whole run"))
        self.one = button(tr("This block"), tr("Plot this block"))
        self.missing = label("", "caption")
        self._block = -1  # the block drawn; -1 for all
        for made in (self.whole, self.one):
            made.setCheckable(True)  # no button group: Tab would reach only one of its buttons
        self.whole.setChecked(True)
        bar = row_of(self.whole, self.one, STRETCH, self.missing, margins=(16, 4, 16, 0), spacing=16)
        self.sheet = PlotSheet(self._tool_tip)
        self.sheet.setAccessibleName(tr("Plots over the steps"))
        self._fit_height()
        self.setLayout(column_of(bar, (self.sheet, 1), spacing=0))
        self.setAccessibleName(tr("Plots over the steps"))
        self._redraw = later(self, self.draw)
        self.whole.clicked.connect(lambda: self.show_span(whole=True))
        self.one.clicked.connect(lambda: self.show_span(whole=False))
        self.sheet.chosen.connect(self._go)
        self.sheet.resized.connect(self._later)
        player.opened.connect(self._on_opened)
        player.grown.connect(self._later)
        player.placed.connect(self._on_placed)
        overview.known.connect(self._later)
        themes.changed.connect(self._forget)

    @Slot()
    def _forget(self) -> None:
        """Discards the plots, so that they are redrawn in other colours or sizes."""
        if self._graph is not None:
            self._graph.deleteLater()
            self._graph, self._rows = None, []
        self._fit_height()
        self._later()

    def _fit_height(self) -> None:
        self.sheet.setMinimumHeight(px(LEAST_HEIGHT))

    @Slot()
    def _on_opened(self) -> None:
        self.sheet.clear()
        self._later()

    def show_span(self, *, whole: bool) -> None:
        """Plots the whole run, or the current block."""
        self.whole.setChecked(whole)
        self.one.setChecked(not whole)
        self._later(at_once=True)

    @Slot()
    def _on_placed(self) -> None:
        frame = self._player.frame
        if self.one.isChecked() and frame is not None and frame.block != self._block:
            self._later()
        self._move_mark()

    @Slot()
    def _later(self, *_: object, at_once: bool = False) -> None:
        if self.isVisible() and (at_once or not self._redraw.isActive()):
            self._redraw.start(0 if at_once or self._overview.complete else REDRAW_MS)

    def _move_mark(self) -> None:
        frame = self._player.frame
        if frame is not None:
            self.sheet.set_mark(self.x_of(frame))

    def _tool_tip(self, x: float) -> str:
        place = self.place_at(x)
        return "" if place is None else "\n".join(self.words_at(place))

    @Slot(float)
    def _go(self, x: float) -> None:
        place = self.place_at(x)
        if place is not None:
            self._player.pause()
            self._player.go(place)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._later()

    def hideEvent(self, event: QHideEvent) -> None:
        self._redraw.stop()
        super().hideEvent(event)

    def x_of(self, frame: Frame) -> float:
        """Returns a frame's place on the axis: a step at its index, noise before the first, a commit after the last."""
        steps = self._overview.steps[frame.block]
        start = sum(self._overview.steps[: frame.block]) if self._block < 0 else 0
        if frame.step == NOISE:
            return start - 0.5
        return start + steps - 0.5 if frame.step >= steps else float(start + frame.step)

    def place_at(self, x: float) -> int | None:
        """Returns the frame of the step nearest to a place on the axis; None in an empty run."""
        replay = self._player.replay
        if replay is None or not replay.frames:
            return None
        before = 0
        blocks = range(len(self._overview.steps)) if self._block < 0 else (self._block,)
        found = None
        for block in blocks:
            steps = self._overview.steps[block]
            if steps:
                step = max(0, min(round(x - before), steps - 1))
                found = replay.first_of(block) + 1 + step
                if x < before + steps - 0.5:
                    return found
            before += steps
        return found

    @Slot()
    def draw(self) -> None:
        """Draws the plots with all figures known so far."""
        frame = self._player.frame
        if frame is None or self.sheet.width() < 40 or self.sheet.height() < 40:
            self.sheet.clear()
            return
        graph = self._graph = self._graph or self._build()
        self._block = frame.block if self.one.isChecked() else -1
        blocks = list(range(len(self._overview.steps))) if self._block < 0 else [self._block]
        tops = self._fill(blocks)
        self.sheet.draw(graph, self._rows, [tick(top) for top in tops], self.legend())
        self._move_mark()
        self._say_missing(blocks)

    def _build(self) -> GraphicsLayoutWidget:
        theme = themes.current()
        graph = plot_library().GraphicsLayoutWidget()
        graph.setBackground(theme.surface_sunken)
        graph.ci.layout.setSpacing(0)
        metrics = QFontMetrics(caption_font())
        names = max(metrics.horizontalAdvance(line.text) for row in self.legend() for line in row)
        graph.ci.layout.setContentsMargins(8, 4, names + 28 + 20, 4)
        style = {"color": theme.faint_ink, "font-size": f"{px(TEXT_SMALL)}px"}
        titles = tr("nats"), tr("cells"), tr("nats"), tr("place")
        for row, title in enumerate(titles):
            plot = plain_plot(graph, row, 0)
            plot.showGrid(y=True, alpha=0.12)
            left = plot.getAxis("left")
            left.setWidth(px(68))
            left.setStyle(showValues=False)  # the sheet writes the only two
            left.setLabel(title, **style)
            bottom = plot.getAxis("bottom")
            if row < len(titles) - 1:
                bottom.setStyle(showValues=False)
                bottom.setHeight(6)
            else:
                bottom.setLabel(tr("step"), **style)
            self._rows.append(plot)
        return graph

    def _fill(self, blocks: list[int]) -> list[float]:
        """Draws the figures of these blocks. Returns the top of each plot's scale."""
        pyqtgraph, theme = plot_library(), themes.current()
        for plot in self._rows:
            plot.clear()
        total = sum(self._overview.steps[block] for block in blocks)
        self.draw_lines(blocks)
        edge = 0
        for block in blocks[:-1]:
            edge += self._overview.steps[block]
            for plot in self._rows:
                plot.addItem(pyqtgraph.InfiniteLine(edge - 0.5, pen=pyqtgraph.mkPen(theme.line_strong, width=1)))
        tops = []
        for row, plot in enumerate(self._rows):
            plot.setXRange(-0.5, max(1, total) - 0.5, padding=0)
            top = 1.0 if row == PLACE else round_up(self._most(plot))
            plot.setYRange(0, HEADROOM * top, padding=0)
            plot.getAxis("left").setTicks([[(0, ""), (top, "")]])
            tops.append(top)
        ticks = self.ticks(blocks)
        for plot in self._rows:
            plot.getAxis("bottom").setTicks([ticks])
        return tops

    def ticks(self, blocks: Sequence[int]) -> list[tuple[float, str]]:
        """Returns places on the axis with their step numbers, counted from 1 in each block."""
        total = max(1, sum(self._overview.steps[block] for block in blocks))
        room = max(1.0, total * px(LEAST_TICK) / max(1, self.sheet.width() - px(68)))  # least steps between two numbers
        every = next((n for n in (1, 2, 5, 10, 20, 50, 100) if n >= room), total)
        found: list[tuple[float, str]] = []
        before = 0
        for block in blocks:
            for step in numbered_steps(self._overview.steps[block], every):
                if not found or before + step - found[-1][0] >= room:
                    found.append((float(before + step), str(step_number(step))))
            before += self._overview.steps[block]
        return found

    @staticmethod
    def _most(plot: PlotItem) -> float:
        tops = [np.nanmax(item.yData) for item in plot.listDataItems() if item.yData is not None]
        return max(tops, default=0.0) or 1.0

    def draw_lines(self, blocks: list[int]) -> None:
        """Draws the lines of these blocks."""
        theme, solid, dashed = themes.current(), Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine
        self.draw_line(ENTROPY, blocks, "mean_entropy", theme.ink, solid)
        self.draw_line(CELLS, blocks, "accepted", theme.accepted, solid)
        self.draw_line(CELLS, blocks, "changes", theme.remelted, dashed)
        self.draw_line(CELLS, blocks, "order.counts", theme.ink, solid)
        self.draw_line(DIVERGENCE, blocks, "kl_to_previous", theme.accent, solid)
        self.draw_line(DIVERGENCE, blocks, "kl_to_final", theme.ink, dashed)
        before = 0
        for block in blocks:
            if (figures := self._overview[block]) is not None and figures.steps:
                self._draw_dots(block, figures, before)
            before += self._overview.steps[block]
        self.draw_line(PLACE, blocks, "order.centres", theme.ink, solid)

    def _draw_dots(self, block: int, figures: BlockFigures, before: int) -> None:
        """Draws a dot for each position of a block: its step on x, its place in the text on y (0 left, 1 right)."""
        order, run = figures.order, self._overview.order
        thinking = np.zeros(len(order.tokens), dtype=np.bool_) if run is None else run.thinking_of(block)
        for which, shade in ((~thinking, themes.current().accepted), (thinking, themes.current().accent)):
            shown = which & order.free
            if shown.any():
                xs, ys = before + order.settled_at[shown].astype(np.float64), order.places[shown]
                self._rows[PLACE].plot(xs, ys, pen=None, symbol="o", symbolSize=DOT, symbolBrush=shade, symbolPen=None)

    def draw_line(self, row: int, blocks: list[int], name: str, shade: str, style: Qt.PenStyle) -> None:
        """Draws a figure of these blocks over their steps. ``name`` is its attribute in ``BlockFigures``."""
        xs: list[NDArray[np.float64]] = []
        ys: list[NDArray[np.float64]] = []
        before = 0
        for block in blocks:
            figures = self._overview[block]
            values = None if figures is None else attrgetter(name)(figures)
            steps = self._overview.steps[block]
            if values is not None and len(values):
                xs += [before + np.arange(len(values), dtype=np.float64), np.array([before + len(values) - 0.5])]
                ys += [np.asarray(values, dtype=np.float64), np.array([np.nan])]  # a gap between blocks
            before += steps
        if not xs:
            return
        pen = plot_library().mkPen(shade, width=1.5, style=style)
        few = sum(len(part) for part in xs) < 80
        self._rows[row].plot(
            np.concatenate(xs),
            np.concatenate(ys),
            pen=pen,
            connect="finite",
            symbol="o" if few else None,
            symbolSize=4,
            symbolBrush=shade,
            symbolPen=None,
        )

    def _say_missing(self, blocks: list[int]) -> None:
        known = [figures for block in blocks if (figures := self._overview[block]) is not None]
        lacking = any(figures.kl_to_previous is None for figures in known)
        text = tr("KL is missing: the likeliest tokens were not recorded") if lacking else ""
        if len(known) < len(blocks):
            text = tr("{known} of {count} blocks read", known=len(known), count=len(blocks))
        self.missing.setText(text)

    def legend(self) -> list[list[LegendLine]]:
        """Returns the legend of each row."""
        theme, run = themes.current(), self._overview.order
        dots = [LegendLine(tr("a cell that settles"), theme.accepted, False)]
        if run is not None and run.has_thought:
            answer, thought = tr("answer"), tr("thought")
            dots = [LegendLine(answer, theme.accepted, False), LegendLine(thought, theme.accent, False)]
        return [
            [LegendLine(tr("mean entropy"), theme.ink, False)],
            [
                LegendLine(tr("accepted"), theme.accepted, False),
                LegendLine(tr("best guess changed"), theme.remelted, True),
                LegendLine(tr("settled"), theme.ink, False),
            ],
            [
                LegendLine(tr("KL to the step before"), theme.accent, False),
                LegendLine(tr("KL to the last step"), theme.ink, True),
            ],
            [*dots, LegendLine(tr("centre: 0 left, 1 right"), theme.ink, False)],
        ]

    def words_at(self, place: int) -> list[str]:
        """Returns the figures of a frame, one in each line."""
        replay = self._player.replay
        assert replay is not None
        frame = replay.frames[place]
        lines = [tr("Block {block}, step {step}", block=frame.block + 1, step=step_number(frame.step))]
        figures: BlockFigures | None = self._overview[frame.block]
        if figures is None or not 0 <= frame.step < figures.steps:
            return lines
        return lines + self.figure_words(figures, frame.step)

    def figure_words(self, figures: BlockFigures, step: int) -> list[str]:
        """Returns the figures of a step, one in each line."""
        lines = [
            tr("Mean entropy: {value} nats", value=f"{figures.mean_entropy[step]:.3f}"),
            tr("Accepted: {value} of {count}", value=int(figures.accepted[step]), count=figures.counted),
            tr("Best guess changed: {value}", value=int(figures.changes[step])),
        ]
        if figures.kl_to_previous is not None and figures.kl_to_final is not None:
            lines += [
                tr("KL to the step before: {value} nats or more", value=f"{figures.kl_to_previous[step]:.3f}"),
                tr("KL to the last step: {value} nats or more", value=f"{figures.kl_to_final[step]:.3f}"),
            ]
        count, centre = int(figures.order.counts[step]), float(figures.order.centres[step])
        lines.append(trn("{count} cell settles", "{count} cells settle", count))
        if count:
            lines.append(tr("Their centre: {value}, from 0 left to 1 right", value=f"{centre:.2f}"))
        return lines
