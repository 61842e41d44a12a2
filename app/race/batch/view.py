"""The Batch tab: starts a batch and shows its results as they arrive. Runs no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.batch.panel import RESULTS, TEACHING, BatchPanel, show_line, teaching, written_line
from app.design.choice_box import ChoiceBox
from app.design.controls import button, label, scroller
from app.design.figure_table import FigureTable
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.design.series import SeriesLegend
from app.race import words
from app.race.batch.answers import AnswerDetail, AnswersView
from app.race.batch.rate_plot import RatePlot
from app.race.batch.source import PromptSource
from app.race.batch.speed_plot import SPEEDS, SpeedPlot
from app.settings.fields import choice_box
from app.settings.spec import Choice
from app.state.race.prompts import BatchRequest
from app.state.race.scores import ALL, LaneScore, RaceResult, RaceScores
from app.system.i18n import tr, trn
from engine import SafelightError

NARROW = 720  # pixels at 100 %; below it the answers stand under the plot
DETAIL = 168
SO_FAR = "so-far"
PLOT = Choice(
    "plot",
    "Plot",
    "The share of right answers by speed, or after each answer.",
    (*((speed.name, f"Right by {speed.title}") for speed in SPEEDS), (SO_FAR, "Right so far")),
)


class BatchView(BatchPanel):
    """The tab. Emits what the user asks for; the controller passes in state and results."""

    run_asked = Signal(object)  # a BatchRequest

    def __init__(self) -> None:
        run = button(tr("Run"), tr("Run the batch"), role="primary")
        super().__init__(run, tr("Stop the batch"), tr("Prompts answered"), stop_tip=tr("Within one step (Esc)"))
        self._titles: Sequence[str] = ()  # of the lanes
        self._scores = RaceScores(())
        self._figures: dict[str, list[LaneScore]] = {}
        self._texts: dict[str, Callable[[], str]] = {}  # make the text of a file, by its suffix
        self._total = self._done = 0
        self._is_on, self._busy = False, ""
        self._make_controls()
        self._lay_out()
        self._show_state()

    def _make_controls(self) -> None:
        self.source = PromptSource()
        self.groups = ChoiceBox()
        self.groups.setAccessibleName(tr("Which prompts count"))
        self.table = FigureTable()
        self.table.setAccessibleName(tr("Figures of the lanes"))
        self.choice = choice_box(PLOT)
        self.legend, self.by_speed, self.so_far = SeriesLegend(), SpeedPlot(), RatePlot()
        self.unchecked = label(
            tr("No program can check the answers to these prompts, so there is nothing to plot."),
            "caption",
            wrap=True,
        )
        self.answers, self.detail = AnswersView(), AnswerDetail()
        self.csv = button(tr("Save CSV…"), tr("Save each answer as CSV"))
        self.json = button(tr("Save JSON…"), tr("Save the table and each answer as JSON"))
        self.png = button(tr("Save the plot…"), tr("Save the plot as PNG"), clicked=self._save_plot)
        self.source.changed.connect(self._show_state)
        self.run.clicked.connect(self._ask)
        self.groups.currentIndexChanged.connect(self._show_figures)
        self.choice.currentIndexChanged.connect(self._show_figures)
        self.answers.chosen.connect(self._open)
        self.csv.clicked.connect(lambda: self._save(tr("Save the answers"), "csv"))
        self.json.clicked.connect(lambda: self._save(tr("Save the figures"), "json"))
        self.saver.saved.connect(self._written)

    def _lay_out(self) -> None:
        self.source.flow.addWidget(self.buttons)
        lead = tr(
            "All lanes answer the same prompts in turn. You see how often each is right and how fast "
            "it is. A 95 % interval follows each figure; it narrows as more prompts are answered."
        )
        self.add_pages(teaching(lead), self._results())
        lines = (self.progress, self.reason, self.fault, self.message)
        files = row_of(self.csv, self.json, self.png, STRETCH, spacing=16)
        inside = column_of(self.source, *lines, (self.pages, 1), files, margins=(16, 12, 16, 12), spacing=8)
        self.setLayout(column_of(scroller(boxed(inside))))  # scrolls as a whole where a window is small

    def _results(self) -> QWidget:
        plotted = boxed(column_of(self.legend, self.unchecked, (self.by_speed, 1), (self.so_far, 1), 0, spacing=4))
        single = boxed(column_of((self.answers, 1), self.detail, spacing=8))
        self.detail.setFixedHeight(px(DETAIL))
        self._halves = row_of((plotted, 1), (single, 1), spacing=16)
        chosen = row_of(self.groups, self.choice, STRETCH, spacing=16)
        return boxed(column_of(chosen, self.table, (self._halves, 1), spacing=8))

    def begin(self, request: BatchRequest, titles: Sequence[str], scores: RaceScores) -> None:
        """Clears the tab for a batch that has begun.

        Args:
            titles: The lanes' titles.
            scores: Its results, which grow.
        """
        self._titles, self._scores, self._figures = titles, scores, {}
        self._total, self._done = len(request), 0
        self.answers.answers.begin(titles)
        self.detail.hide()
        self.groups.clear()
        self._show_legend()
        self.pages.setCurrentIndex(TEACHING)
        self.show_fault("")
        self._show_state()

    def name_lanes(self, titles: Sequence[str]) -> None:
        """Renames the lanes of the batch, once more is known of their models."""
        if len(titles) == len(self._titles) and list(titles) != list(self._titles):
            self._titles = titles
            self._show_legend()
            self.answers.answers.set_titles(titles)
            self._show_figures()

    def _show_legend(self) -> None:
        numbered = [tr("lane {number}", number=place) for place, _ in enumerate(self._titles, start=1)]
        self.legend.show_names(numbered, tr("Lanes: {names}", names=", ".join(self._titles)))

    def add(self, found: Sequence[Sequence[RaceResult]]) -> None:
        """Appends the answers to further prompts."""
        self._done += len(found)
        self.answers.answers.add([{result.lane: result for result in results} for results in found if results])
        if self._is_on:
            self._say_progress()
        self._show_state()

    def show_figures(self, figures: dict[str, list[LaneScore]]) -> None:
        """Shows each lane's figures, over all prompts and by group."""
        self._figures = figures
        known = [self.groups.itemData(place) for place in range(self.groups.count())]
        for name in figures:
            if name not in known:
                self.groups.addItem(words.group_title(name), name)
        self.groups.setVisible(len(figures) > 1)
        self.pages.setCurrentIndex(RESULTS if figures.get(ALL) else TEACHING)
        self._show_figures()

    @Slot()
    def _show_figures(self) -> None:
        group = self.groups.currentData() or ALL
        rows = self._figures.get(group, [])
        placed = [(self._scores.lanes.index(row.lane), row) for row in rows]
        shown = [(place, self._titles[place], row) for place, row in placed]
        numbered = [(tr("{number}  {lane}", number=place + 1, lane=title), row) for place, title, row in shown]
        self.table.show_figures(words.heads(), [words.cells(title, row) for title, row in numbered])
        is_checked = any(row.checked for row in rows)
        is_so_far = self.choice.currentData() == SO_FAR
        for part in (self.legend, self.choice):
            part.setVisible(is_checked)
        self.by_speed.setVisible(is_checked and not is_so_far)
        self.so_far.setVisible(is_checked and is_so_far)
        self.unchecked.setVisible(not is_checked)
        speed = next((one for one in SPEEDS if one.name == self.choice.currentData()), SPEEDS[0])
        self.by_speed.show_rows(shown, speed)
        self.so_far.show_verdicts([(place, title, self._scores.verdicts(place, group)) for place, title, _ in shown])
        self._show_state()

    def show_doing(self, *, is_on: bool, reason: str, message: str) -> None:
        """Shows whether a batch is running, why none can begin (``reason``), and what it waits for (``message``)."""
        self._is_on, self._busy = is_on, reason
        if message:
            self.message.setText(message)
        elif is_on:
            self._say_progress()
        self._show_state()

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

    def end(self, why: str = "", *, was_stopped: bool = False) -> None:
        """Shows that the batch is over; ``why`` says in a sentence what went wrong."""
        self._is_on = False
        self.show_fault(why)
        line = trn(
            "{count} prompt of {total}, seed {seed}; intervals of 95 %",
            "{count} prompts of {total}, seed {seed}; intervals of 95 %",
            self._done,
            total=f"{self._total:,}",
            seed=self.source.seed.value(),
        )
        self.message.setText(tr("Stopped: {line}", line=line) if was_stopped else line)
        self._show_state()

    def offer_files(self, texts: dict[str, Callable[[], str]]) -> None:
        """Sets the functions that make the text of a file, by suffix ("csv", "json")."""
        self._texts = texts

    @Slot()
    def _ask(self) -> None:
        request = self.source.request
        if request is not None and not self._is_on and not self._busy:
            self.run_asked.emit(request)

    @Slot()
    def _show_state(self) -> None:
        """Shows and enables the buttons that can be used now."""
        self.source.allow(not self._is_on)
        obstacle = self._busy or self.source.problem
        self.show_running(is_on=self._is_on, obstacle=obstacle, done=self._done, total=self._total)
        self.run.setAccessibleDescription(obstacle)
        show_line(self.reason, "" if self._is_on else obstacle)
        show_line(self.message, self.message.text())
        self.progress.setVisible(self._is_on)
        for made in (self.csv, self.json, self.png):
            made.setVisible(bool(self._figures) and (made is not self.png or not self.choice.isHidden()))
            made.setEnabled(not self._is_on)

    @Slot(int)
    def _open(self, row: int) -> None:
        self.detail.setVisible(row >= 0)
        if row >= 0:
            self.detail.show_answers(self._titles, self.answers.answers.answers(row))

    def _save(self, title: str, suffix: str) -> None:
        self.save_text(title, "race", suffix, self._texts[suffix])

    @Slot()
    def _save_plot(self) -> None:
        shown = self.by_speed if self.so_far.isHidden() else self.so_far
        picture = shown.grab().toImage()

        def write(path: Path) -> None:
            if not picture.save(str(path), "PNG"):  # type: ignore[call-overload]
                raise SafelightError(tr("{path} cannot be written. Choose another folder.", path=str(path)))

        self.saver.ask(tr("Save the plot"), "race", "png", write)

    @Slot(object)
    def _written(self, path: Path) -> None:
        show_line(self.message, written_line(path))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < px(NARROW)
        side = QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight
        self._halves.setDirection(side)
