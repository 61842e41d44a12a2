"""The order in which a run settled, in words and as plots; with the end of its turn and its doubtful tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.design import themes
from app.design.controls import label
from app.design.layouts import column_of
from app.design.plot_sheet import LegendLine
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.inspector.story_words import doubts_in_words, end_in_words, order_in_words
from app.inspector.timeline.overview import BlockFigures, Overview
from app.inspector.timeline.plots import Plots
from app.player.player import Player
from app.system.i18n import tr, trn

if TYPE_CHECKING:
    from pyqtgraph import GraphicsLayoutWidget

DOT = 4  # diameter in pixels


class OrderView(QWidget):
    """Sentences above the plots. The mark in the plots follows the player."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__()
        self._player, self._overview = player, overview
        self.setAccessibleName(tr("Order of settling"))
        self.words = label("", "", wrap=True, selectable=True)
        self.end = label("", "caption", wrap=True, selectable=True)
        self.plots = OrderPlots(player, overview)
        texts = column_of(self.words, self.end, margins=(SPACE_4, SPACE_2, SPACE_4, 0), spacing=SPACE_1)
        self.setLayout(column_of(texts, (self.plots, 1), spacing=0))
        for signal in (player.opened, player.grown, overview.known):
            signal.connect(self._say)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._say()

    @Slot()
    def _say(self) -> None:
        if not self.isVisible():
            return
        trace, order = self._player.trace, self._overview.order
        words = end = ""
        if trace is not None and order is None:
            words = tr("The order is worked out…")
        elif trace is not None and order is not None and order.blocks:
            words = " ".join(order_in_words(order))
            said = [end_in_words(trace.result), doubts_in_words(order, trace.piece)]
            end = " ".join(said if said[0] else ())
        elif trace is not None:
            words = tr("No step was taken yet.")
        self.words.setText(words)
        self.end.setText(end)
        self.end.setVisible(bool(end))


class OrderPlots(Plots):
    """Plots of the number of positions that settle at each step, their places in the text, and the places' centre."""

    def titles(self) -> Sequence[str]:
        return tr("cells"), tr("place")

    def tops(self) -> dict[int, float]:
        return {1: 1.0}

    def _build(self) -> GraphicsLayoutWidget:
        graph = super()._build()
        graph.ci.layout.setRowStretchFactor(1, 2)
        return graph

    def draw_lines(self, blocks: list[int]) -> None:
        self.draw_line(0, blocks, "order.counts", themes.current().ink, Qt.PenStyle.SolidLine)
        before = 0
        for block in blocks:
            if (figures := self._overview[block]) is not None and figures.steps:
                self._draw_dots(block, figures, before)
            before += self._overview.steps[block]
        self.draw_line(1, blocks, "order.centres", themes.current().ink, Qt.PenStyle.SolidLine)

    def _draw_dots(self, block: int, figures: BlockFigures, before: int) -> None:
        """Draws a dot for each position of a block: its step on x, its place in the text on y (0 left, 1 right)."""
        order, run = figures.order, self._overview.order
        thinking = np.zeros(len(order.tokens), dtype=np.bool_) if run is None else run.thinking_of(block)
        for which, shade in ((~thinking, themes.current().accepted), (thinking, themes.current().accent)):
            shown = which & order.free
            if shown.any():
                xs, ys = before + order.settled_at[shown].astype(np.float64), order.places[shown]
                self._rows[1].plot(xs, ys, pen=None, symbol="o", symbolSize=DOT, symbolBrush=shade, symbolPen=None)

    def missing_words(self, known: Sequence[BlockFigures]) -> str:  # noqa: ARG002 - always complete
        return ""

    def legend(self) -> list[list[LegendLine]]:
        theme, run = themes.current(), self._overview.order
        dots = [LegendLine(tr("a position"), theme.accepted, False)]
        if run is not None and run.has_thought:
            answer, thought = tr("answer"), tr("thought")
            dots = [LegendLine(answer, theme.accepted, False), LegendLine(thought, theme.accent, False)]
        centre = LegendLine(tr("centre: 0 left, 1 right"), theme.ink, False)
        return [[LegendLine(tr("settled"), theme.ink, False)], [*dots, centre]]

    def figure_words(self, figures: BlockFigures, step: int) -> list[str]:
        count, centre = int(figures.order.counts[step]), float(figures.order.centres[step])
        lines = [trn("{count} position settles", "{count} positions settle", count)]
        if count:
            lines.append(tr("Their centre: {value}, from 0 left to 1 right", value=f"{centre:.2f}"))
        return lines
