"""The scoreboard: starts a batch of puzzles and shows its results as they arrive. Runs no model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QCheckBox, QScrollArea, QWidget

from app.batch.panel import RESULTS, TEACHING, BatchPanel, show_line, teaching, written_line
from app.design.controls import button, flow_of, group, label
from app.design.figure_table import FigureTable
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.settings.fields import SeedBox, whole_box
from app.state.sudoku.scores import ALL, Request, Result, Scoreboard, ScoreRow
from app.sudoku.scores.plot import ScorePlot
from app.sudoku.words import cells_of, heads, short_with_givens, summary, with_givens
from app.system.i18n import tr, trn
from app.system.timers import later
from engine.tasks.sudoku import BINS


class ScoreTable(FigureTable):
    """A row for each bin and contender."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Scores"))

    def show_rows(self, rows: list[ScoreRow]) -> None:
        """Shows rows, with a column of contenders if there are several."""
        named = len({row.contender for row in rows}) > 1
        sums = {place for place, row in enumerate(rows) if row.bin == ALL}
        shown = [cells_of(row, named=named) for row in rows]
        self.show_figures(heads(named=named), shown, names=1 + named, sums=sums)


MOST = 10_000  # puzzles of each bin
USUAL = 20
FILE = "sudoku-scores"  # the suggested name
REFRESH_MS = 100  # between two updates of the table while results arrive


class ScoreboardView(BatchPanel):
    """The fields of a batch, a live table and plots, and buttons that save the results.

    Results stay until ``clear`` or until their contender begins a batch with the same bins, so that batches can be
    compared.
    """

    run_asked = Signal(object)  # a Request of app.state.sudoku.scores

    def __init__(self) -> None:
        run = button(tr("Run"), tr("Run the puzzles"), role="primary")
        super().__init__(run, tr("Stop running puzzles"), tr("Puzzles run"))
        self.scores = Scoreboard()
        self._request: Request | None = None  # of the latest batch
        self._done = self._total = 0  # of the running batch
        self.is_running = False
        self._busy = ""
        self._make_controls()
        self._lay_out()
        self._timer = later(self, self.refresh)
        self._show_state()

    def _make_controls(self) -> None:
        self.bins = {name: QCheckBox(short_with_givens(name)) for name in BINS}
        for name, box in self.bins.items():
            box.setAccessibleName(with_givens(name))
            box.setToolTip(with_givens(name))
            box.setChecked(True)
            box.toggled.connect(self._show_state)
        self.count = whole_box(tr("Puzzles of each kind"), MOST, USUAL, 88)
        self.seed = SeedBox()
        self.seed.setAccessibleName(tr("Seed of puzzles and noise"))
        self.seed.setFixedWidth(px(168))
        self.seed.setToolTip(tr("The same seed asks the same puzzles, whoever solves them."))
        self.table = ScoreTable()
        self.plot = ScorePlot()
        self.csv = button(tr("Save CSV…"), tr("Save the single results as CSV"), clicked=self._save_csv)
        self.json = button(tr("Save JSON…"), tr("Save rows and single results as JSON"), clicked=self._save_json)
        self.clear_button = button(tr("Clear"), tr("Clear the scoreboard"), clicked=self.clear)
        self.run.clicked.connect(self._ask)
        self.saver.saved.connect(self._written)

    def _lay_out(self) -> None:
        choice = flow_of(
            group(*self.bins.values()),
            group(self.count, label(tr("of each kind"))),
            group(label(tr("Seed")), self.seed),
            self.buttons,
            gap=16,
        )
        empty = tr(
            "No puzzles were run yet. Each one is fresh, has one solution, and comes from grids that no model here "
            "was trained on. A solver judges the answers; it never helps the model."
        )
        scroller = QScrollArea()  # for low windows
        scroller.setWidgetResizable(True)
        scroller.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroller.setWidget(boxed(column_of(self.table, (self.plot, 1), spacing=16)))
        self.add_pages(teaching(empty), scroller)
        files = row_of(self.csv, self.json, STRETCH, self.clear_button, spacing=16)
        lines = (self.progress, self.reason, self.message)
        self.setLayout(column_of(choice, *lines, (self.pages, 1), files, spacing=8))

    @property
    def request(self) -> Request | None:
        """The chosen batch; None if no bin is chosen."""
        chosen = tuple(name for name, box in self.bins.items() if box.isChecked())
        return Request(chosen, self.count.value(), self.seed.value()) if chosen else None

    def begin(self, request: Request, contenders: Sequence[str] = ()) -> None:
        """Shows that a batch has begun.

        Drops earlier results of the named contenders in its bins; without names, all results.
        """
        if contenders:
            self.scores.drop(contenders, request.bins)
        else:
            self.scores = Scoreboard()
        self._request, self.is_running = request, True
        self._done, self._total = 0, len(request) * max(1, len(contenders))
        self.message.setText(tr("Making the first puzzle"))
        self.refresh()

    def add(self, result: Result) -> None:
        """Adds the result of a puzzle."""
        self.scores.add(result)
        self._done += 1
        if not self._timer.isActive():
            self._timer.start(REFRESH_MS)

    def ended(self, message: str = "") -> None:
        """Shows that the batch is over; ``message`` says in a sentence why it ended early."""
        self.is_running = False
        self._timer.stop()
        self.refresh()
        self.message.setText(message or summary(self.scores))

    def set_busy(self, reason: str) -> None:
        """Disables starting a batch with a reason; empty enables it."""
        self._busy = reason
        self._show_state()

    @Slot()
    def clear(self) -> None:
        """Removes all results; not while a batch is running."""
        if not self.is_running:
            self.scores = Scoreboard()
            self._request = None
            self.message.setText("")
            self.refresh()

    @Slot()
    def _ask(self) -> None:
        request = self.request
        if request is not None and not self.is_running and not self._busy:
            self.run_asked.emit(request)

    @Slot()
    def _ask_to_stop(self) -> None:
        self.message.setText(tr("Stopping after this step"))
        super()._ask_to_stop()

    @Slot()
    def refresh(self) -> None:
        """Shows all results."""
        self.table.show_rows(self.scores.rows_to_show())
        self.pages.setCurrentIndex(RESULTS if len(self.scores) else TEACHING)
        self.plot.show_scores(self.scores, at_once=not self.is_running)
        if self.is_running and self._done:
            done = trn("{count} puzzle of {total}", "{count} puzzles of {total}", self._done, total=f"{self._total:,}")
            self.message.setText(f"{done} · {summary(self.scores)}")
        self._show_state()

    @Slot()
    def _show_state(self) -> None:
        """Shows and enables the controls that can be used now."""
        for control in (*self.bins.values(), self.count, self.seed):
            control.setEnabled(not self.is_running)
        obstacle = self._busy or ("" if self.request is not None else tr("Choose a kind of puzzle to run."))
        self.show_running(is_on=self.is_running, obstacle=obstacle, done=self._done, total=self._total)
        self.run.setToolTip(obstacle)
        self.run.setAccessibleDescription(obstacle)
        show_line(self.reason, "" if self.is_running else obstacle)
        for made in (self.csv, self.json, self.clear_button):
            made.setEnabled(len(self.scores) > 0 and (made is not self.clear_button or not self.is_running))

    @Slot()
    def _save_csv(self) -> None:
        self.save_text(tr("Save the results"), FILE, "csv", self.scores.to_csv)

    @Slot()
    def _save_json(self) -> None:
        self.save_text(tr("Save the scores"), FILE, "json", functools.partial(self.scores.to_json, self._request))

    @Slot(object)
    def _written(self, path: Path) -> None:
        self.message.setText(written_line(path))
