"""The inspector's page: a run, step by step, in views that share one frame and one selected cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QStackedWidget, QTabWidget, QWidget

from app.design import themes
from app.design.controls import Elided, Hairline, button, chain_tabs, introduce, label, scroller, show_line
from app.design.fonts import px
from app.design.icons import transport_button
from app.design.layouts import Gap, boxed, column_of, row_of, splitter_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.inspector.canvas.canvas import InspectorCanvas
from app.inspector.canvas.page_cells import PromptPictures
from app.inspector.compare.view import Compare
from app.inspector.keys import Keys, keeps
from app.inspector.run_cards import InspectorWelcome
from app.inspector.story_words import Caption, caption, end_in_short
from app.inspector.tabs import AnswerTab, CellTab, ChangeTab
from app.inspector.timeline.overview import Overview
from app.inspector.timeline.transport import Transport
from app.inspector.words import made_in_words, model_words, title_in_words
from app.player.player import NOTHING, Player
from app.state.run.replay import NOISE, Frame
from app.state.run.task_words import kind_words
from app.system.i18n import tr, trn
from app.system.timers import later
from engine import Recording, TraceHeader

LEAST_VIEW = 150  # pixels at 100 %, height of what shows the run
LEAST_SIDE = 240  # pixels at 100 %, width of the tabs
REFRESH_MS = 30  # interval at which a live run is read
CELL, CHANGE, ANSWER = range(3)  # places of the tabs


class Captions(QWidget):
    """The caption and its buttons. Follows the player. Events are defined by ``_is_event``."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__()
        self.setObjectName("transport")  # styled as a part of the transport
        self._player, self._overview = player, overview
        self.text = Elided("caption-track")
        tips = tr("Previous event (Shift+N)"), tr("Next event (N)")
        self.back = transport_button("chevron-left", tr("Previous event"), tips[0], lambda: self.go(-1))
        self.on = transport_button("chevron-right", tr("Next event"), tips[1], lambda: self.go(1))
        parts = (self.back, self.on, Gap(SPACE_2), (self.text, 1))
        self.setLayout(row_of(*parts, margins=(SPACE_4, 0, SPACE_4, SPACE_2), spacing=SPACE_1))
        player.grown.connect(self._show)
        player.placed.connect(self._show)
        self._show()

    @Slot()
    def _show(self) -> None:
        frame, record, trace = self._player.frame, self._player.block, self._player.trace
        self.caption = Caption("")
        if frame is not None and record is not None and trace is not None:
            self.caption = caption(record, frame, trace)
        self.text.set_whole(self.caption.text)

    def go(self, direction: int) -> None:
        """Goes to the nearest event after (1) or before (-1) the current frame, and selects the cell it concerns."""
        place = self._next(direction)
        if place is None:
            return
        self._player.pause()
        self._player.go(place)
        if self.caption.position != NOTHING:
            self._player.select(self.caption.position)

    def _next(self, direction: int) -> int | None:
        replay = self._player.replay
        frames: Sequence[Frame] = [] if replay is None else replay.frames
        places = range(self._player.place + direction, len(frames) if direction > 0 else -1, direction)
        return next((place for place in places if self._is_event(frames[place])), None)

    def _is_event(self, frame: Frame) -> bool:
        """True if a round begins, a cell is taken back, a block ends, or a decision is read at this frame.

        False for blocks whose figures are not known yet.
        """
        figures, replay = self._overview[frame.block], self._player.replay
        if frame.step == NOISE or figures is None:
            return False
        if replay is not None and replay.is_decision:
            return True
        return frame.step in figures.rounds or frame.step >= figures.steps or bool(figures.taken_back[frame.step])


class RunViews(QStackedWidget):
    """The run alone, or next to another one. Takes the height that is left, and asks for little of it."""

    def hasHeightForWidth(self) -> bool:
        return False

    def minimumSizeHint(self) -> QSize:
        return QSize(super().minimumSizeHint().width(), px(LEAST_VIEW))

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()


class InspectorPage(QWidget):
    """The page: a canvas, three tabs next to it, and the player's controls below. ``player`` has the current frame."""

    closed = Signal()
    export_asked = Signal(object)  # a Player with the run

    def __init__(self) -> None:
        super().__init__(focusPolicy=Qt.FocusPolicy.StrongFocus, accessibleName=tr("Inspector"))
        self.setObjectName("inspector")
        self._waiting = later(self, self._take_in)
        self.is_live = False  # the open run is still running
        self._share = 1.0  # of the latest step of a live run that is shown
        self.titles: Mapping[str, str] = {}  # titles of the gallery's runs, by the path of their file
        self.player = Player(self)
        self.overview = Overview(self.player, self)
        self.keys = Keys(self.run, self)
        self.player.opened.connect(self._let_keys)
        self._let_keys()
        self.welcome = InspectorWelcome()
        self.stack = QStackedWidget()
        self.stack.addWidget(self.welcome)
        self.setLayout(column_of(self.stack))
        self.pictures = PromptPictures(self.player)
        self.canvas = InspectorCanvas(self.player)
        self.transport = Transport(self.player, self.overview)
        self.captions = Captions(self.player, self.overview)
        self.cell, self.change = CellTab(self.player), ChangeTab(self.player)
        self.answer = AnswerTab(self.player, self.overview)
        self.compare = Compare(self.player)
        self.side = QTabWidget()
        self._lay_out()

    def _lay_out(self) -> None:
        head = self._head()
        self.side.setDocumentMode(True)
        self.side.tabBar().setDrawBase(False)
        self.side.tabBar().setAccessibleName(tr("Views of the run"))
        self.side.setAccessibleName(tr("Views of this run"))
        self._fit_side()
        for title, tab in ((tr("Cell"), self.cell), (tr("Change"), self.change), (tr("Answer"), self.answer)):
            self.side.addTab(tab, title)
        seen = boxed(row_of(self.pictures, (self.canvas, 1), spacing=0))
        self.across = splitter_of((seen, 3), (self.side, 2), sizes=(740, 500), across=True)
        self.main = RunViews()
        self._add_view(tr("Run"), tr("Look at this run alone"), self.across)
        self._add_view(tr("Compare"), tr("Compare this run with another"), self.compare)
        chain_tabs(self.close_button, (*self.view_buttons, self.open_button, self.export_button))
        self.notice = label("", "remark", wrap=True, selectable=True, name=tr("What is missing from this run"))
        self.notice.setContentsMargins(16, 4, 16, 4)
        self.notice.hide()
        parts = (head, self.notice, Hairline(), (self.main, 1), Hairline(), self.transport, self.captions)
        self._column = column_of(*parts, spacing=0)
        self.views = scroller(boxed(self._column), arrows=False)  # it scrolls where large text leaves too little room
        self.stack.addWidget(self.views)
        self.overview.known.connect(self._figured)
        themes.settled.connect(self._fit_side)
        self.keys.watch(self.views)

    @Slot()
    def _fit_side(self) -> None:
        self.side.setMinimumSize(px(LEAST_SIDE), px(120))

    @Slot()
    def show_opinion(self) -> None:
        """Shows the causal probabilities of the finished block, which have come to the replay."""
        frame = self.player.frame
        if frame is not None:
            self.player.go_to_block(frame.block)
        self.player.set_board(False)
        self.canvas.set_layer("causal")
        self.player.placed.emit(self.player.place)  # all views of this frame know it now

    def add_guide(self, card: QWidget) -> None:
        """Places the card of the guided minute between the views of the run and the transport."""
        self._column.insertWidget(self._column.indexOf(self.main) + 1, card)

    def _head(self) -> QWidget:
        """Returns the line over the views: the run's name, the switch between views, and the buttons for files."""
        self.title, self.facts = Elided("trace"), Elided("caption")
        self.open_button = button(tr("Open…"), tr("Open a recorded run from a file"))
        self.export_button = button(tr("Export…"), tr("Export this run"), clicked=self.export)
        self.close_button = button(tr("‹ All runs"), tr("Back to your runs and the gallery"), clicked=self._close)
        self.view_buttons: list[QPushButton] = []
        self._switch = row_of(spacing=16)
        names, files = column_of(self.title, self.facts, spacing=0), (self.open_button, self.export_button)
        parts = (self.close_button, (names, 1), self._switch, Gap(16), *files)
        return introduce(boxed(row_of(*parts, margins=(16, 8, 16, 8), spacing=16)), id="inspector-head")

    def _add_view(self, title: str, name: str, widget: QWidget) -> None:
        """Adds a view of the run, with a switch button named ``name``."""
        place = self.main.addWidget(widget)
        switch = button(
            title, name, checkable=True, clicked=lambda: self.show_view(place)
        )  # no button group: Tab would reach only one of its buttons
        switch.setChecked(not self.view_buttons)
        self._switch.addWidget(switch)
        self.view_buttons.append(switch)

    def show_view(self, place: int) -> None:
        """Shows the run alone (0), or next to another one (1)."""
        for at, switch in enumerate(self.view_buttons):
            switch.setChecked(at == place)
        self.main.setCurrentIndex(place)

    def open_trace(self, trace: Recording, place: int | None = None) -> None:
        """Opens a finished run at its last frame, or at ``place``; -1 is its first step."""
        self._open(trace, place, is_live=False)

    def follow_live(self, trace: Recording) -> None:
        """Opens a live run. ``refresh`` must be called when it grows."""
        self._open(trace, None, is_live=True)

    @Slot(float)
    def refresh(self, share: float = 1.0) -> None:
        """Reports that the live run has grown. ``share`` of its latest step is shown. May be called for each event."""
        self._share = share
        if self.is_live and not self._waiting.isActive():
            self._waiting.start(REFRESH_MS)

    @Slot()
    def run_ended(self) -> None:
        """Reports that the live run has ended; all of it is shown. Does nothing if no live run is open."""
        if self.is_live:
            self.is_live = False
            self._share = 1.0
            self._waiting.stop()
            self._take_in()

    @Slot()
    def _take_in(self) -> None:
        if self.player.trace is None:
            return
        before = self.player.place
        self.player.refresh(self._share)
        if self.player.place != before or not self.is_live:
            self._describe()

    def close_trace(self) -> None:
        """Closes the run and returns to the list of runs."""
        self.is_live = False
        self._waiting.stop()
        self.player.open(None)
        self.show_view(0)
        self.stack.setCurrentWidget(self.welcome)

    @Slot()
    def _close(self) -> None:
        self.close_trace()
        self.closed.emit()

    def _open(self, trace: Recording, place: int | None, *, is_live: bool) -> None:
        self.is_live = is_live
        self._waiting.stop()
        self._fit_kind(trace.header)
        self.player.open(trace, place)
        self._describe()
        self.stack.setCurrentWidget(self.views)
        self.setFocus()

    def _fit_kind(self, header: TraceHeader) -> None:
        """Shows the tabs for this kind of run. A decision is read, not written: it is not run on with a change."""
        self.side.setTabVisible(CHANGE, header.decision is None)
        if kind_words(header):  # the answers, or the format, are what it is about
            self.side.setCurrentIndex(ANSWER)

    def _counted(self) -> str:
        """Describes the size of the run: blocks and steps, or a decision's questions and reads."""
        replay, trace = self.player.replay, self.player.trace
        if trace is not None and replay is not None and trace.header.decision is not None:
            reads, questions = len(replay.reads()), len(trace.header.decision.questions)
            asked = trn("{count} question", "{count} questions together", questions)
            return trn("{asked}, {count} read", "{asked}, {count} reads", reads, asked=asked)
        blocks, steps = len(self.overview.steps), sum(self.overview.steps)
        return tr("blocks: {blocks}, steps: {steps}", blocks=blocks, steps=steps)

    def _describe(self) -> None:
        trace = self.player.trace
        if trace is None:
            return
        prompt = title_in_words(trace.header) or tr("A run")
        title = self.titles.get(str(trace.path), prompt)
        seed = "" if trace.seed is None else tr("seed {seed}", seed=trace.seed)
        parts = [kind_words(trace.header), model_words(trace.header), seed]
        parts.append(self._counted())
        if trace.header.parent is not None:
            parts.append(made_in_words(trace.header, trace.piece))
        if title != prompt:
            parts.append(prompt)
        if self.is_live:
            parts.append(tr("in progress"))
        elif self.overview.complete and trace.header.decision is None:
            parts += end_in_short(trace.result, len(self.overview.doubts))
        self.title.set_whole(title)
        self.facts.set_whole(" · ".join(part for part in parts if part))
        self._show_problem()

    @Slot()
    def _figured(self) -> None:
        if self.overview.complete:
            self._describe()
        else:
            self._show_problem()

    @Slot()
    def _show_problem(self) -> None:
        """Shows which part of the run cannot be read, or why it ended early."""
        replay, trace = self.player.replay, self.player.trace
        said = [] if replay is None or trace is None else [replay.problem, trace.notice, trace.failure]
        text = " ".join(dict.fromkeys(part for part in said if part))
        show_line(self.notice, text)

    @Slot()
    def export(self) -> None:
        """Stops playing, and asks for the export dialog for the open run."""
        if self.player.trace is not None:
            self.player.pause()
            self.export_asked.emit(self.player)

    @Slot()
    def _let_keys(self) -> None:
        self.keys.set_enabled(self.player.replay is not None)

    def run(self, action: str) -> None:
        """Runs a key's action by its id; does nothing without a run."""
        if self.player.replay is None:
            return
        if action in ("event-back", "event-on"):
            self.captions.go(-1 if action == "event-back" else 1)
        else:
            self.transport.run(action)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and keeps(event):
            event.accept()
            return True
        return super().event(event)

    def resizeEvent(self, _event: QResizeEvent) -> None:
        is_tall = self.width() < self.height()
        self.across.setOrientation(Qt.Orientation.Vertical if is_tall else Qt.Orientation.Horizontal)

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
