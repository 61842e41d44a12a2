"""The inspector's page: a run, step by step, in views that share one frame and one selected cell."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QStackedWidget, QTabWidget, QWidget

from app.design.controls import Elided, Hairline, button, label, scroller
from app.design.fonts import px
from app.design.layouts import Gap, boxed, column_of, row_of, splitter_of
from app.inspector.answers.panel import ReadAnswers
from app.inspector.canvas.canvas import InspectorCanvas
from app.inspector.canvas.map import StepMap
from app.inspector.canvas.prompt_pictures import PromptPictures
from app.inspector.cell.history import CellHistory
from app.inspector.cell.text import RenderedText
from app.inspector.keys import Keys, keeps
from app.inspector.run_pages import InspectorWelcome
from app.inspector.story_words import end_in_short
from app.inspector.task_view import TaskView
from app.inspector.timeline.captions import Captions
from app.inspector.timeline.filmstrip import Filmstrip
from app.inspector.timeline.order import OrderView
from app.inspector.timeline.overview import Overview
from app.inspector.timeline.plots import Plots
from app.inspector.timeline.transport import Transport
from app.inspector.words import made_in_words, model_words, prompt_in_line
from app.player.player import Player
from app.state.run.task_words import kind_words, task_title
from app.system.i18n import tr, trn
from app.system.timers import later
from engine import Recording, TraceHeader

REFRESH_MS = 30  # interval at which a live run is read
NARROW = 900  # pixels at 100 %; below this width the linked views are under the canvas
SHORT = 640  # below this height the plots are a tab, so that a whole board is visible
SIZES = {False: (420, 240), True: (250, 410)}  # heights of canvas and figures, by ``is_decision``
LEAST_SIDE = 150  # least height of the tabs in pixels
TALL = 1080  # from this height on a tab with controls leaves room for the cell's history below


class InspectorPage(QWidget):
    """The page. ``player`` has the current frame. Panels of other modules are added by ``add_panel``."""

    closed = Signal()
    export_asked = Signal(object)  # a Player with the run

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("inspector")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Inspector"))
        self._waiting = later(self, self._take_in)
        self._live = False
        self._is_narrow = self._has_plots_tab = False
        self._share = 1.0  # of the latest step of a live run that is shown
        self._sizes = {is_decision: list(sizes) for is_decision, sizes in SIZES.items()}  # as the user left them
        self.titles: Mapping[str, str] = {}  # titles of the gallery's runs, by the path of their file
        self._worked_in: list[QWidget] = []
        self._forking: list[QWidget] = []
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
        self.plots = Plots(self.player, self.overview)
        self.answers = ReadAnswers(self.player)
        self.figures = QStackedWidget()  # the plots, or a decision's answers: its single step has nothing to plot
        self.task = TaskView(self.player, self)  # a tab for decisions and for runs under a format
        self.task.hide()
        self.filmstrip = Filmstrip(self.player, self.overview)
        self.side = QTabWidget()
        self.side.tabBar().setAccessibleName(tr("Views of the run"))
        self._lay_out()

    def _lay_out(self) -> None:
        head = self._head()
        self.figures.addWidget(self.plots)
        self.figures.addWidget(self.answers)
        self.side.setDocumentMode(True)
        self.side.tabBar().setDrawBase(False)
        self.side.setAccessibleName(tr("Views of this run"))
        self.side.setUsesScrollButtons(True)
        self.side.setMinimumHeight(LEAST_SIDE)  # less than its tallest tab, so that a board above is wholly visible
        seen = boxed(row_of(self.pictures, (self.canvas, 1), spacing=0))
        self._history = self._linked_views()
        self.left = splitter_of((seen, 3), (self.figures, 2), sizes=SIZES[False])
        self.right = splitter_of((self.side, 0), (self._history, 0), sizes=(300, 340))
        self.across = splitter_of((self.left, 3), (self.right, 2), sizes=(740, 500), across=True)
        self.main = QStackedWidget()
        self.add_view(tr("Run"), tr("Look at this run alone"), self.across)
        self.notice = label("", "remark", wrap=True, selectable=True)
        self.notice.setContentsMargins(16, 4, 16, 4)
        self.notice.setAccessibleName(tr("What is missing of this run"))
        self.notice.hide()
        below = (self.filmstrip, self.transport, self.captions)
        parts = (head, self.notice, Hairline(), (self.main, 1), Hairline(), *below)
        self.views = boxed(column_of(*parts, spacing=0))
        self.stack.addWidget(self.views)
        self.overview.known.connect(self._figured)
        self.side.currentChanged.connect(self._give_room)
        self.keys.watch(self.views)

    def _head(self) -> QWidget:
        """Returns the line over the views: the run's name, the switch between views, and the buttons for files."""
        self.title, self.facts = Elided("trace"), Elided("caption")
        self.open_button = button(tr("Open…"), tr("Open a trace from a file"))
        self.export_button = button(tr("Export…"), tr("Export this run"), clicked=self.export)
        self.close_button = button(tr("‹ All runs"), tr("Back to the gallery and your runs"), clicked=self._close)
        self.view_buttons: list[QPushButton] = []
        self._switch = row_of(spacing=16)
        names, files = column_of(self.title, self.facts, spacing=0), (self.open_button, self.export_button)
        parts = (self.close_button, (names, 1), self._switch, Gap(16), *files)
        head = boxed(row_of(*parts, margins=(16, 8, 16, 8), spacing=16))
        head.setObjectName("inspector-head")
        return head

    def _linked_views(self) -> QWidget:
        """Returns the cell's history, shown if there is room. Adds the map, the text and the order as tabs."""
        history = CellHistory(self.player)
        for part in (self.answers, self.task):
            self.keys.watch(part)
        self.map, self.order = StepMap(self.player), OrderView(self.player, self.overview)
        self.add_panel(tr("Steps"), self.map, scrolls=False)
        self.add_panel(tr("Text"), RenderedText(self.player), scrolls=False)
        self.add_panel(tr("Order"), self.order, scrolls=False)
        self.keys.watch(history)
        return history  # it scrolls itself

    def add_panel(
        self, title: str, widget: QWidget, *, works: bool = False, scrolls: bool = True, forks: bool = False
    ) -> int:
        """Place a further view among the tabs; returns its place.

        Args:
            works: True if the tab has controls to work with; in a low window it takes the whole height.
            scrolls: True to wrap the widget in a scroll area; False if it scrolls itself.
            forks: True if the tab is only useful for forks; it is hidden for runs under a format, which have none.
        """
        area = widget
        if scrolls:
            area = scroller(widget, arrows=False)  # the page handles the arrow keys
            area.setMinimumHeight(96)
        if works:
            self._worked_in.append(area)
        if forks:
            self._forking.append(area)
        place = self.side.addTab(area, title)
        self.keys.watch(widget)
        return place

    @Slot()
    def _give_room(self) -> None:
        """Hides the history if the current tab needs its room, unless the history is a tab itself."""
        if self.across.orientation() == Qt.Orientation.Horizontal:
            short = self.height() < px(TALL)
            shown, trace = self.side.currentWidget(), self.player.trace
            has_rounds = shown is self.task and trace is not None and trace.header.decision is None
            self._history.setVisible(not (short and (has_rounds or shown in self._worked_in)))

    def add_view(self, title: str, name: str, widget: QWidget) -> int:
        """Adds a view that can replace the run's views, with a switch button named ``name``. Returns its index."""
        if self.view_buttons:
            self.keys.watch(widget)
        place = self.main.addWidget(widget)
        made = button(title, name)
        made.setCheckable(True)  # no button group: Tab would reach only one of its buttons
        made.setChecked(not self.view_buttons)
        made.clicked.connect(lambda: self.show_view(place))
        self._switch.addWidget(made)
        self.view_buttons.append(made)
        return place

    def show_view(self, place: int) -> None:
        """Shows the views of the run (0), or another view added by ``add_view``."""
        for at, made in enumerate(self.view_buttons):
            made.setChecked(at == place)
        self.main.setCurrentIndex(place)

    def open_trace(self, trace: Recording, place: int | None = None) -> None:
        """Opens a finished run at its last frame, or at ``place``."""
        self._live = False
        self._open(trace, place)

    def follow_live(self, trace: Recording) -> None:
        """Opens a live run. ``refresh`` must be called when it grows."""
        self._live = True
        self._open(trace, None)

    @Slot(float)
    def refresh(self, share: float = 1.0) -> None:
        """Reports that the live run has grown. ``share`` of its latest step is shown. May be called for each event."""
        self._share = share
        if self._live and not self._waiting.isActive():
            self._waiting.start(REFRESH_MS)

    @Slot()
    def run_ended(self) -> None:
        """Reports that the live run has ended; all of it is shown. Does nothing if no live run is open."""
        if self._live:
            self._live = False
            self._share = 1.0
            self._waiting.stop()
            self._take_in()

    @Slot()
    def _take_in(self) -> None:
        if self.player.trace is None:
            return
        before = self.player.place
        self.player.refresh(self._share)
        if self.player.place != before or not self._live:
            self._describe()

    def close_trace(self) -> None:
        """Closes the run and returns to the list of runs."""
        self._live = False
        self._waiting.stop()
        self.player.open(None)
        self.show_view(0)
        self.stack.setCurrentWidget(self.welcome)

    @Slot()
    def _close(self) -> None:
        self.close_trace()
        self.closed.emit()

    def _open(self, trace: Recording, place: int | None) -> None:
        self._waiting.stop()
        self._fit_kind(trace.header)
        self.player.open(trace, place)
        self._give_room()
        self._describe()
        self.stack.setCurrentWidget(self.views)
        self.setFocus()

    def _fit_kind(self, header: TraceHeader) -> None:
        """Shows the tabs that make sense for this kind of run. A decision has no steps to plot and cannot be forked."""
        is_decision, was_decision = header.decision is not None, self.figures.currentWidget() is self.answers
        place = self.side.indexOf(self.task)
        if place >= 0 and not kind_words(header):
            self.side.removeTab(place)
        elif kind_words(header):
            if place < 0:
                place = self.side.insertTab(self.side.indexOf(self.map), self.task, "")
            self.side.setTabText(place, task_title(header))
            self.side.setCurrentWidget(self.task)
        for part in (self.map, self.order, *self._worked_in):
            is_out = is_decision or (header.output_format is not None and part in self._forking)
            self.side.setTabVisible(self.side.indexOf(part), not is_out)
        if is_decision != was_decision:
            self._sizes[was_decision] = self.left.sizes()
            self.figures.setCurrentWidget(self.answers if is_decision else self.plots)
            self.left.setSizes(self._sizes[is_decision])
        if self._has_plots_tab:
            self.side.setTabText(self.side.indexOf(self.figures), self._figures_title())
            if is_decision:
                self.side.setCurrentWidget(self.figures)

    def _figures_title(self) -> str:
        return tr("Answers") if self.figures.currentWidget() is self.answers else tr("Plots")

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
        prompt = prompt_in_line(trace.header) or tr("A run")
        title = self.titles.get(str(trace.path), prompt)
        seed = "" if trace.seed is None else tr("seed {seed}", seed=trace.seed)
        parts = [kind_words(trace.header), model_words(trace.header), seed]
        parts.append(self._counted())
        if trace.header.parent is not None:
            parts.append(made_in_words(trace.header, trace.piece))
        if title != prompt:
            parts.append(prompt)
        if self._live:
            parts.append(tr("under way"))
        elif self.overview.order is not None and trace.header.decision is None:
            parts += end_in_short(trace.result, self.overview.order)
        self.title.set_whole(title)
        self.facts.set_whole(" · ".join(part for part in parts if part))
        self._show_problem()

    @Slot()
    def _figured(self) -> None:
        """Updates the facts after new figures."""
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
        if text != self.notice.text():
            self.notice.setText(text)
        self.notice.setVisible(bool(text))

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
        match action:
            case "pause":
                self.player.pause()
            case "forward":
                self.player.play(1)
            case "event-back":
                self.captions.go(-1)
            case "event-on":
                self.captions.go(1)
            case _:
                self.transport.run(action)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and keeps(event):
            event.accept()
            return True
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange(self.width() < px(NARROW), self.height() < px(SHORT))
        self._give_room()

    def _arrange(self, narrow: bool, short: bool) -> None:
        """Arranges the parts for the size of the window.

        In a narrow window everything but the canvas is in the tabs below it; in a low one the plots are a tab.
        """
        if (narrow, narrow or short) == (self._is_narrow, self._has_plots_tab):
            return
        shown, was_narrow = self.side.currentWidget(), self._is_narrow
        self._is_narrow, self._has_plots_tab = narrow, narrow or short
        self.across.setOrientation(Qt.Orientation.Vertical if narrow else Qt.Orientation.Horizontal)
        for part in (self._history, self.figures):
            self.side.removeTab(self.side.indexOf(part))
        if narrow:
            self.side.insertTab(0, self._history, tr("Cell"))
        else:
            self.right.addWidget(self._history)
        if self._has_plots_tab:
            self.side.insertTab(1, self.figures, self._figures_title())
        else:
            self.left.addWidget(self.figures)
            self.figures.show()
        if narrow and not was_narrow:
            self.side.setCurrentIndex(0)
        elif self.side.indexOf(shown) >= 0:
            self.side.setCurrentWidget(shown)
        self._give_room()

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
