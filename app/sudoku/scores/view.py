"""The scoreboard: asks for a batch of puzzles and shows what comes of it as it comes. Runs no model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QProgressBar,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.design.controls import FlowLayout, button, group, label
from app.design.fonts import px
from app.design.saving import ask_target
from app.settings.fields import SeedBox, WholeBox
from app.state.sudoku.scores import Request, Result, Scoreboard
from app.sudoku.scores.plot import ScorePlot
from app.sudoku.scores.table import ScoreTable
from app.sudoku.scores.words import short_with_givens, summary, with_givens
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.files import write_text
from engine.tasks.sudoku import BINS

MOST = 10_000  # puzzles of a bin
USUAL = 20
REFRESH_MS = 100  # between two changes of the table while results come in


class ScoreboardView(QWidget):
    """Bins, count and seed of a batch; a live table and plots; files of the results.

    Results stay until ``clear`` or until their contender begins a batch with the same bins, so that one batch can be
    held against another.
    """

    run_asked = Signal(object)  # a Request of app.state.sudoku.scores
    stop_asked = Signal()
    failed = Signal(str)  # why a file was not written, in one sentence

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scores = Scoreboard()
        self._request: Request | None = None  # of the latest batch
        self._done = self._total = 0  # of the batch under way
        self._running = False
        self._busy = ""
        self._folder = ""  # of the last file
        self._make_controls()
        self._lay_out()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.refresh)
        self._show_state()

    def _make_controls(self) -> None:
        self.bins = {name: QCheckBox(short_with_givens(name)) for name in BINS}
        for name, box in self.bins.items():
            box.setAccessibleName(with_givens(name))
            box.setToolTip(with_givens(name))
            box.setChecked(True)
            box.toggled.connect(self._show_state)
        self.count = _number(tr("Puzzles of each kind"), 1, MOST, USUAL, 88)
        self.seed = SeedBox()
        self.seed.setAccessibleName(tr("Seed of puzzles and noise"))
        self.seed.setFixedWidth(px(168))
        self.seed.setToolTip(tr("The same seed asks the same puzzles, whoever solves them."))
        self.run = button(tr("Run"), tr("Run the puzzles"), role="primary")
        self.stop = button(tr("Stop"), tr("Stop running puzzles"), role="plain")
        self.reason = label("", "caption", wrap=True)
        self.message = label("", "caption", wrap=True)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(tr("Puzzles run"))
        self.table = ScoreTable()
        self.plot = ScorePlot()
        self.csv = button(tr("Save CSV…"), tr("Save the single results as CSV"))
        self.json = button(tr("Save JSON…"), tr("Save rows and single results as JSON"))
        self.clear_button = button(tr("Clear"), tr("Clear the scoreboard"))
        self.run.clicked.connect(self._ask)
        self.stop.clicked.connect(self._ask_to_stop)
        self.csv.clicked.connect(self._save_csv)
        self.json.clicked.connect(self._save_json)
        self.clear_button.clicked.connect(self.clear)

    def _lay_out(self) -> None:
        choice = QWidget()
        flow = FlowLayout(choice, gap=16)
        for part in (
            group(*self.bins.values()),
            group(self.count, label(tr("of each kind"))),
            group(label(tr("Seed")), self.seed),
            group(self.run, self.stop),
        ):
            flow.addWidget(part)
        policy = choice.sizePolicy()
        policy.setHeightForWidth(True)
        choice.setSizePolicy(policy)

        empty = label(
            tr(
                "No puzzles were run yet. Each one is fresh, has one solution, and comes from grids that no model here "
                "was trained on. A solver judges the answers; it never helps the model."
            ),
            wrap=True,
        )
        empty.setMaximumWidth(px(560))
        nothing = QWidget()
        above = QVBoxLayout(nothing)
        above.setContentsMargins(0, 16, 0, 0)
        above.addWidget(empty)
        above.addStretch(1)
        shown = QWidget()
        inner = QVBoxLayout(shown)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(16)
        inner.addWidget(self.table)
        inner.addWidget(self.plot, 1)
        self.pages = QStackedWidget()
        self.pages.addWidget(nothing)
        scroller = QScrollArea()  # for windows that are not high enough
        scroller.setWidgetResizable(True)
        scroller.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroller.setWidget(shown)
        self.pages.addWidget(scroller)
        files = QHBoxLayout()
        files.setSpacing(16)
        for made in (self.csv, self.json):
            files.addWidget(made)
        files.addStretch(1)
        files.addWidget(self.clear_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(choice)
        column.addWidget(self.progress)
        for told in (self.reason, self.message):
            column.addWidget(told)
        column.addWidget(self.pages, 1)
        column.addLayout(files)

    # ---------------------------------------------------------------- a batch

    @property
    def request(self) -> Request | None:
        """What is chosen; None where no bin is."""
        chosen = tuple(name for name, box in self.bins.items() if box.isChecked())
        return Request(chosen, self.count.value(), self.seed.value()) if chosen else None

    @property
    def is_running(self) -> bool:
        return self._running

    def begin(self, request: Request, contenders: Sequence[str] = ()) -> None:
        """A batch has begun.

        What the named contenders did in its bins before is dropped; where none is named, everything is.
        """
        if contenders:
            self.scores.drop(contenders, request.bins)
        else:
            self.scores = Scoreboard()
        self._request, self._running = request, True
        self._done, self._total = 0, len(request) * max(1, len(contenders))
        had_focus = self.run.hasFocus()
        self._say(tr("Making the first puzzle"))
        self.refresh()
        if had_focus:
            self.stop.setFocus()

    def add(self, result: Result) -> None:
        """Another puzzle is done."""
        self.scores.add(result)
        self._done += 1
        if not self._timer.isActive():
            self._timer.start(REFRESH_MS)

    def ended(self, message: str = "") -> None:
        """The batch is over; ``message`` says in a sentence why, where it did not come to its end."""
        had_focus = self.stop.hasFocus()
        self._running = False
        self._timer.stop()
        self.refresh()
        self._say(message or summary(self.scores))
        if had_focus:
            self.run.setFocus()

    def set_busy(self, reason: str) -> None:
        """Why no batch can begin now, in a sentence; empty where one can."""
        self._busy = reason
        self._show_state()

    @Slot()
    def clear(self) -> None:
        """Forget all results; not while a batch runs."""
        if not self._running:
            self.scores = Scoreboard()
            self._request = None
            self._say("")
            self.refresh()

    @Slot()
    def _ask(self) -> None:
        request = self.request
        if request is not None and not self._running and not self._busy:
            self.run_asked.emit(request)

    @Slot()
    def _ask_to_stop(self) -> None:
        self._say(tr("Stopping after this step"))
        self.stop_asked.emit()

    # ---------------------------------------------------------------- showing

    @Slot()
    def refresh(self) -> None:
        """Show all results that there are."""
        self.table.show_rows(self.scores.rows_to_show())
        self.pages.setCurrentIndex(1 if len(self.scores) else 0)
        self.plot.show_scores(self.scores, at_once=not self._running)
        if self._running and self._done:
            done = trn("{count} puzzle of {total}", "{count} puzzles of {total}", self._done, total=f"{self._total:,}")
            self._say(f"{done} · {summary(self.scores)}")
        self._show_state()

    @Slot()
    def _show_state(self) -> None:
        """What can be pressed now."""
        for control in (*self.bins.values(), self.count, self.seed):
            control.setEnabled(not self._running)
        self.stop.setVisible(self._running)
        self.run.setVisible(not self._running)
        obstacle = self._busy or ("" if self.request is not None else tr("Choose a kind of puzzle to run."))
        self.run.setEnabled(not obstacle)
        self.run.setToolTip(obstacle)
        self.run.setAccessibleDescription(obstacle)
        self.reason.setText("" if self._running else obstacle)
        self.reason.setVisible(bool(self.reason.text()))
        self.progress.setMaximum(max(1, self._total))
        self.progress.setValue(self._done if self._running else 0)
        for made in (self.csv, self.json, self.clear_button):
            made.setEnabled(len(self.scores) > 0 and (made is not self.clear_button or not self._running))

    def _say(self, text: str) -> None:
        self.message.setText(text)

    # ---------------------------------------------------------------- files

    @Slot()
    def _save_csv(self) -> None:
        self._save(tr("Save the results"), "csv")

    @Slot()
    def _save_json(self) -> None:
        self._save(tr("Save the scores"), "json")

    def _save(self, title: str, suffix: str) -> None:
        path = ask_target(self, title, self._folder, "sudoku-scores", suffix)
        if path is None:
            return
        text = self.scores.to_csv() if suffix == "csv" else self.scores.to_json(self._request)
        try:
            write_text(path, text)
        except SafelightError as error:
            self.failed.emit(str(error))
            return
        self._folder = str(path.parent)
        self._say(tr("Written: {path}", path=str(path)))


def _number(name: str, low: int, high: int, value: int, width: int) -> WholeBox:
    box = WholeBox()
    box.setRange(low, high)
    box.setValue(value)
    box.setAccessibleName(name)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    box.setFixedWidth(px(width))
    return box
