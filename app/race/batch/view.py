"""The Batch tab: asks for a batch and shows what comes of it as it comes. Runs no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QProgressBar, QStackedWidget, QVBoxLayout, QWidget

from app.bridge.background import Background
from app.design.choice_box import ChoiceBox
from app.design.controls import FocusGroup, button, group, label, scroller
from app.design.figure_table import FigureTable
from app.design.fonts import px
from app.design.saving import ask_target
from app.design.series import SeriesLegend
from app.race.batch import words
from app.race.batch.answers import AnswerDetail, AnswersView
from app.race.batch.plot import SPEEDS, SpeedPlot
from app.race.batch.source import PromptSource
from app.settings.fields import choice_box
from app.settings.spec import Choice
from app.state.race.prompts import BatchRequest
from app.state.race.scores import ALL, LaneScore, RaceResult
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.files import write_text

NARROW = 720  # pixels at 100 %; below it plot and answers stand under each other
DETAIL = 168
SPEED = Choice(
    "speed",
    "Speed",
    "What the plot holds against the share of right answers.",
    tuple((speed.name, speed.title.capitalize()) for speed in SPEEDS),
)


class BatchView(QWidget):
    """Emits what is asked for; is told what there is."""

    run_asked = Signal(object)  # a BatchRequest
    stop_asked = Signal()
    failed = Signal(str)  # why a file was not written, in one sentence

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._titles: Sequence[str] = ()  # of the lanes
        self._lanes: Sequence[str] = ()  # as the rows name them
        self._figures: dict[str, list[LaneScore]] = {}
        self._texts: dict[str, Callable[[], str]] = {}  # of files, by their suffix
        self._writing = Background(self)
        self._writing.done.connect(self._written)
        self._writing.failed.connect(self._fail)
        self._total = self._done = 0
        self._is_on, self._busy, self._folder = False, "", ""
        self._make_controls()
        self._lay_out()
        self._show_state()

    def _make_controls(self) -> None:
        self.source = PromptSource()
        self.run = button(tr("Run"), tr("Run the batch"), role="primary")
        self.stop = button(tr("Stop"), tr("Stop the batch"), role="plain", tip=tr("Within one step (Esc)"))
        self._buttons = FocusGroup(self.run, self.stop)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(tr("Prompts answered"))
        self.reason, self.message = label("", "caption", wrap=True), label("", "caption", wrap=True)
        self.fault = label("", "error", wrap=True, selectable=True)
        self.groups = ChoiceBox()
        self.groups.setAccessibleName(tr("Which prompts count"))
        self.table = FigureTable()
        self.table.setAccessibleName(tr("Figures of the lanes"))
        self.speed = choice_box(SPEED)
        self.legend, self.plot = SeriesLegend(), SpeedPlot()
        self.unchecked = label(
            tr("No program can check the answers to these prompts, so there is no exactness to plot."),
            "caption",
            wrap=True,
        )
        self.answers, self.detail = AnswersView(), AnswerDetail()
        self.csv = button(tr("Save CSV…"), tr("Save the single answers as CSV"))
        self.json = button(tr("Save JSON…"), tr("Save rows and single answers as JSON"))
        self.png = button(tr("Save the plot…"), tr("Save the plot as PNG"))
        self.source.changed.connect(self._show_state)
        self.run.clicked.connect(self._ask)
        self.stop.clicked.connect(self.stop_asked)
        self.groups.currentIndexChanged.connect(self._show_figures)
        self.speed.currentIndexChanged.connect(self._show_figures)
        self.answers.chosen.connect(self._open)
        self.csv.clicked.connect(lambda: self._save(tr("Save the answers"), "csv"))
        self.json.clicked.connect(lambda: self._save(tr("Save the figures"), "json"))
        self.png.clicked.connect(self._save_plot)

    def _lay_out(self) -> None:
        self.source.flow.addWidget(group(self.run, self.stop))
        self.pages = QStackedWidget()
        self.pages.addWidget(self._teaching())
        self.pages.addWidget(self._results())
        files = QHBoxLayout()
        files.setSpacing(16)
        for made in (self.csv, self.json, self.png):
            files.addWidget(made)
        files.addStretch(1)
        inside = QWidget()  # scrolls as a whole where a window is small
        column = QVBoxLayout(inside)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(8)
        for part in (self.source, self.progress, self.reason, self.fault, self.message):
            column.addWidget(part)
        column.addWidget(self.pages, 1)
        column.addLayout(files)
        around = QVBoxLayout(self)
        around.setContentsMargins(0, 0, 0, 0)
        around.addWidget(scroller(inside))
        self.setFocusProxy(self.source.source)

    def _teaching(self) -> QWidget:
        told = label(
            tr(
                "All lanes answer the same prompts, one after the other. You see how often each is right and how fast "
                "it is, with intervals in which the true figure lies 19 times of 20."
            ),
            wrap=True,
        )
        told.setMaximumWidth(px(560))
        nothing = QWidget()
        above = QVBoxLayout(nothing)
        above.setContentsMargins(0, 16, 0, 0)
        above.addWidget(told)
        above.addStretch(1)
        return nothing

    def _results(self) -> QWidget:
        chosen = QHBoxLayout()
        chosen.setSpacing(16)
        chosen.addWidget(self.groups)
        chosen.addWidget(self.speed)
        chosen.addStretch(1)
        plotted = QWidget()
        left = QVBoxLayout(plotted)
        left.setContentsMargins(0, 0, 0, 0)
        left.setSpacing(4)
        left.addWidget(self.legend)
        left.addWidget(self.unchecked)
        left.addWidget(self.plot, 1)
        left.addStretch(0)
        single = QWidget()
        right = QVBoxLayout(single)
        right.setContentsMargins(0, 0, 0, 0)
        right.setSpacing(8)
        right.addWidget(self.answers, 1)
        right.addWidget(self.detail)
        self.detail.setFixedHeight(px(DETAIL))
        self._halves = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._halves.setSpacing(16)
        self._halves.addWidget(plotted, 1)
        self._halves.addWidget(single, 1)
        shown = QWidget()
        inner = QVBoxLayout(shown)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(8)
        inner.addLayout(chosen)
        inner.addWidget(self.table)
        inner.addLayout(self._halves, 1)
        return shown

    # ---------------------------------------------------------------- a batch

    def begin(self, request: BatchRequest, titles: Sequence[str], lanes: Sequence[str]) -> None:
        """A batch has begun; what was shown of another one is dropped.

        Args:
            titles: what the lanes are called. lanes: how rows name them.
        """
        self._titles, self._lanes, self._figures = titles, lanes, {}
        self._total, self._done = len(request), 0
        self.answers.answers.begin(titles)
        self.detail.hide()
        self.groups.clear()
        self._show_legend()
        self.pages.setCurrentIndex(0)
        self.show_fault("")
        self._show_state()

    def name_lanes(self, titles: Sequence[str]) -> None:
        """The lanes of the batch are called so, now that more is known of their models."""
        if len(titles) == len(self._titles) and list(titles) != list(self._titles):
            self._titles = titles
            self._show_legend()
            self.answers.answers.set_titles(titles)
            self._show_figures()

    def _show_legend(self) -> None:
        numbered = [tr("lane {number}", number=place) for place, _ in enumerate(self._titles, start=1)]
        self.legend.show_names(numbered, tr("Lanes: {names}", names=", ".join(self._titles)))

    def add(self, found: Sequence[Sequence[RaceResult]]) -> None:
        """Answers to further prompts."""
        self._done += len(found)
        self.answers.answers.add([{result.lane: result for result in results} for results in found if results])
        if self._is_on:
            self._say_progress()
        self._show_state()

    def show_figures(self, figures: dict[str, list[LaneScore]]) -> None:
        """Each lane's figures, of all prompts and by group."""
        self._figures = figures
        known = [self.groups.itemData(place) for place in range(self.groups.count())]
        for name in figures:
            if name not in known:
                self.groups.addItem(words.group_title(name), name)
        self.groups.setVisible(len(figures) > 1)
        self.pages.setCurrentIndex(1 if figures.get(ALL) else 0)
        self._show_figures()

    @Slot()
    def _show_figures(self) -> None:
        rows = self._figures.get(self.groups.currentData() or ALL, [])
        placed = [(self._lanes.index(row.lane), row) for row in rows]
        shown = [(place, self._titles[place], row) for place, row in placed]
        numbered = [(tr("{number}  {lane}", number=place + 1, lane=title), row) for place, title, row in shown]
        self.table.show_figures(words.heads(), [words.cells(title, row) for title, row in numbered])
        is_checked = any(row.checked for row in rows)
        for part in (self.plot, self.legend, self.speed):
            part.setVisible(is_checked)
        self.unchecked.setVisible(not is_checked)
        speed = next((one for one in SPEEDS if one.name == self.speed.currentData()), SPEEDS[0])
        self.plot.show_rows(shown, speed)
        self._show_state()

    def show_doing(self, *, is_on: bool, reason: str, message: str) -> None:
        """Whether a batch is on, why none can begin, and what it waits for."""
        self._is_on, self._busy = is_on, reason
        if message:
            self.message.setText(message)
        elif is_on:
            self._say_progress()
        self._show_state()

    def show_fault(self, text: str) -> None:
        """Why the batch ended before its end; empty where it did not."""
        self.fault.setText(text)
        self.fault.setVisible(bool(text))

    def _say_progress(self) -> None:
        said = tr("Making the first prompt")
        if self._done:
            said = trn(
                "{count} prompt of {total} is answered",
                "{count} prompts of {total} are answered",
                self._done,
                total=f"{self._total:,}",
            )
        self.message.setText(said)

    def end(self, why: str = "") -> None:
        """The batch is over; ``why`` says in a sentence why it did not come to its end."""
        self._is_on = False
        self.show_fault(why)
        self.message.setText(
            trn(
                "{count} prompt of {total}, seed {seed}; intervals of 95 %",
                "{count} prompts of {total}, seed {seed}; intervals of 95 %",
                self._done,
                total=f"{self._total:,}",
                seed=self.source.seed.value(),
            )
        )
        self._show_state()

    def offer_files(self, texts: dict[str, Callable[[], str]]) -> None:
        """What is to be written as "csv" and "json" when it is asked for."""
        self._texts = texts

    @Slot()
    def _ask(self) -> None:
        request = self.source.request
        if request is not None and not self._is_on and not self._busy:
            self.run_asked.emit(request)

    @Slot()
    def _show_state(self) -> None:
        """What can be pressed now."""
        self.source.allow(not self._is_on)
        obstacle = self._busy or self.source.problem
        with self._buttons:
            self.stop.setVisible(self._is_on)
            self.run.setVisible(not self._is_on)
            self.run.setEnabled(not obstacle)
        self.run.setAccessibleDescription(obstacle)
        self.reason.setText("" if self._is_on else obstacle)
        for told in (self.reason, self.message):
            told.setVisible(bool(told.text()))
        self.progress.setVisible(self._is_on)
        self.progress.setMaximum(max(1, self._total))
        self.progress.setValue(self._done)
        for made in (self.csv, self.json, self.png):
            made.setVisible(bool(self._figures) and (made is not self.png or not self.plot.isHidden()))
            made.setEnabled(not self._is_on)

    @Slot(int)
    def _open(self, row: int) -> None:
        self.detail.setVisible(row >= 0)
        if row >= 0:
            self.detail.show_answers(self._titles, self.answers.answers.answers(row))

    # ---------------------------------------------------------------- files

    def _save(self, title: str, suffix: str) -> None:
        path = ask_target(self, title, self._folder, "race", suffix)
        if path is not None:
            text = self._texts[suffix]
            self._writing.ask(lambda: _write(path, text))

    @Slot()
    def _save_plot(self) -> None:
        path = ask_target(self, tr("Save the plot"), self._folder, "race", "png")
        if path is None:
            return
        if self.plot.grab().save(str(path), "PNG"):
            self._written(path)
        else:
            self.failed.emit(tr("{path} cannot be written. Choose another folder.", path=str(path)))

    @Slot(object)
    def _written(self, path: Path) -> None:
        self._folder = str(path.parent)
        self.message.setText(tr("Written: {path}", path=str(path)))
        self.message.show()

    @Slot(object)
    def _fail(self, error: Exception) -> None:
        if not isinstance(error, SafelightError):
            raise error
        self.failed.emit(str(error))

    @property
    def is_writing(self) -> bool:
        """Whether a file is being written."""
        return self._writing.is_busy

    # ---------------------------------------------------------------- looks

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < px(NARROW)
        side = QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        self._halves.setDirection(side)


def _write(path: Path, text: Callable[[], str]) -> Path:
    write_text(path, text())
    return path
