"""The three tabs next to the canvas: a cell, a change to the run, and the answer as a whole."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QScrollArea, QWidget

from app.design.controls import Hairline, label, scroller
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, splitter_of
from app.design.tokens import SPACE_2, SPACE_4
from app.inspector.answers.panel import ReadAnswers
from app.inspector.canvas.map import StepMap
from app.inspector.cell.history import CellHistory
from app.inspector.cell.text import RenderedText
from app.inspector.forks.panel import ForkPanel
from app.inspector.influence.view import InfluenceView
from app.inspector.second_opinion import SecondOpinion
from app.inspector.task_view import TaskView
from app.inspector.timeline.ending import EndWords
from app.inspector.timeline.overview import Overview
from app.inspector.timeline.plots import Plots
from app.player.player import NOTHING, Player
from app.state.run.task_words import kind_words
from app.system.i18n import tr

WIDE = 760  # pixels at 100 %; from this width on the history is next to the map


class CellTab(QWidget):
    """The map of all cells, and the history of the selected one: at its side, or below it once a cell is selected."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._player = player
        self.map, self.history = StepMap(player), CellHistory(player)
        self.hint = label(tr("Select a cell to see its history here."), "caption", wrap=True)
        self.hint.setContentsMargins(SPACE_4, SPACE_2, SPACE_4, SPACE_2)
        self.split = splitter_of((self.map, 1), (self.history, 1), sizes=(300, 300))
        self.setLayout(column_of((self.split, 1), self.hint, spacing=0))
        player.opened.connect(self._fit)
        player.selected.connect(self._fit)
        self._fit()

    @Slot()
    def _fit(self) -> None:
        header = None if self._player.trace is None else self._player.trace.header
        has_map = header is None or header.decision is None  # a decision takes one step
        is_wide = self.width() >= px(WIDE)
        has_history = is_wide or not has_map or self._player.selection != NOTHING
        self.split.setOrientation(Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical)
        self.map.setVisible(has_map)
        self.history.setVisible(has_history)
        self.hint.setVisible(not has_history)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


class ChangeTab(QWidget):
    """The panels that use the run's model: changes, what depends on a token, a second opinion, rewritten spans."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self.forks = ForkPanel(player)
        self.influence = InfluenceView(player, self.forks.token)
        self.opinion = SecondOpinion()
        panels = (self.influence, self.opinion, self.forks.spans, self.forks.versions)
        parts = (self.forks, *(part for panel in panels for part in (Hairline(), panel)))
        column = column_of(*parts, STRETCH, margins=(SPACE_4, SPACE_4, SPACE_4, SPACE_4), spacing=SPACE_4)
        self.setLayout(column_of(scroller(boxed(column), arrows=False)))  # the page handles the arrow keys


class AnswerTab(QWidget):
    """The text, the task, its end and plots of its figures: what this kind of run has of them."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__()
        self._player = player
        self.answers = ReadAnswers(player)
        self.task = TaskView(player)
        self.text = RenderedText(player)
        self.ending = EndWords(player, overview)
        self.plots = Plots(player)
        parts = (self.answers, self.task, (self.text, 1), self.ending, self.plots)
        self.area: QScrollArea = scroller(boxed(column_of(*parts, spacing=0)), arrows=False)
        self.setLayout(column_of(self.area))
        self.answers.lit.connect(lambda row: self.area.ensureWidgetVisible(row, 0, SPACE_2))
        player.opened.connect(self._fit)
        self._fit()

    @Slot()
    def _fit(self) -> None:
        """Shows the parts that this kind of run has."""
        header = None if self._player.trace is None else self._player.trace.header
        is_decision = header is not None and header.decision is not None
        self.answers.setVisible(is_decision)
        self.task.setVisible(header is not None and bool(kind_words(header)))
        for part in (self.ending, self.plots):
            part.setVisible(not is_decision)
