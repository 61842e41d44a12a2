"""Decides a table: reads the file, runs its rows, sorts and writes them, each in a thread."""

from __future__ import annotations

import functools
import time
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.bridge.row_runner import RowRunner
from app.context import AppContext
from app.decisions.deciding import StateDecider
from app.decisions.table.view import DecisionTable
from app.decisions.words import progress_words
from app.state.decisions.board import RowBoard, RowOutcome
from app.state.decisions.sheet import QuestionSheet
from app.system.i18n import tr
from engine.service import LoadedModel, RunRequest, decision_requests
from engine.tasks.decisions.results import result_columns, write_results
from engine.tasks.decisions.table import CsvTable, TableState, read_table, states_of


class TableDecider(QObject):
    """Decides one table at a time."""

    changed = Signal()  # the table, its answers, the progress or the problem
    written = Signal(str)  # the path of the results

    def __init__(self, context: AppContext, view: DecisionTable, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context, self._view = context, view
        self.table: CsvTable | None = None
        self.board: RowBoard | None = None
        self._asked = QuestionSheet()  # the questions of the board
        self._model: LoadedModel | None = None  # the model that answered
        self._began = self._seconds = 0.0
        self._is_stopped = False
        self.runner = RowRunner(context.backend.scheduler, self)
        self.row = StateDecider(context, self)
        self._reading, self._ordering, self._rescaling, self._preparing = (
            Background(self, done, self._refuse)
            for done in (self.show, view.rows.rows.show_order, self._show_rescaled, self._run)
        )
        self.runner.arrived.connect(self._take)
        self.runner.ended.connect(self._end)
        self.row.began.connect(view.detail.show_reading)
        self.row.changed.connect(view.detail.strip.refresh)
        view.opened.connect(self.open)
        view.filter.activated.connect(self.order)
        view.rows.sort_asked.connect(self.order)
        view.written.connect(self.write)
        view.saver.saved.connect(self._wrote)
        view.failed.connect(view.show_fault)
        view.row_chosen.connect(self._read_row)
        view.stop_asked.connect(self.stop)
        context.model_changed.connect(self._model_changed)
        context.at_end(self.runner.close)

    @Slot(str)
    def _refuse(self, problem: str) -> None:
        self._view.show_fault(problem)
        self.changed.emit()

    @property
    def is_busy(self) -> bool:
        """True while rows are being prepared or decided."""
        return self.runner.is_on or self._preparing.is_busy

    @property
    def progress(self) -> str:
        """The progress as one line; empty before anything was asked."""
        if self._reading.is_busy:
            return tr("Reading the table")
        if self._preparing.is_busy:
            return tr("Checking the rows")
        if self.board is None or not (self.board.done or self.runner.is_on):
            return ""
        seconds = time.monotonic() - self._began if self.runner.is_on else self._seconds
        line = progress_words(self.board, seconds, is_on=self.runner.is_on)
        return tr("Stopped: {line}", line=line) if self._is_stopped and not self.runner.is_on else line

    @Slot(object)
    def open(self, path: Path) -> None:
        """Reads a table from a file in a thread; a problem is shown in the view."""
        self._reading.ask(functools.partial(read_table, path))
        self._view.show_fault("")
        self.changed.emit()

    @Slot(object)
    def show(self, table: CsvTable) -> None:
        """Replaces the table, and drops its answers."""
        self.table, self.board = table, None
        self._view.show_table(table)
        self.changed.emit()

    def run(self, model: LoadedModel, sheet: QuestionSheet) -> None:
        """Asks the questions about each row. All rows are checked first; a problem is shown in the view."""
        table, wanted, pictures = self.table, self._view.wanted, self._view.wanted_pictures
        if table is None:
            return
        self._asked, self._model = sheet, model

        def prepare() -> RowBoard:
            board = RowBoard(table, states_of(table, wanted, pictures), sheet.asked(), sheet.temperature)
            result_columns(table, board.questions, is_repeated=True)
            return board

        self._view.show_fault("")
        self._preparing.ask(prepare)
        self.changed.emit()

    @Slot(object)
    def _run(self, board: RowBoard) -> None:
        model, sheet = self._model, self._asked
        assert model is not None
        self.board, self._began, self._is_stopped = board, time.monotonic(), False
        self._view.begin(board)
        image_tokens = self._context.values.image_tokens

        def make(state: TableState) -> tuple[RunRequest, ...]:
            return decision_requests(
                model,
                state.text,
                board.questions,
                instructions=sheet.instructions.strip(),
                is_joint=sheet.is_joint,
                repeats=sheet.repeats,
                pictures=state.pictures(),
                image_tokens=image_tokens,
            )

        self.runner.begin(range(len(board)), board.states, make)
        self.changed.emit()

    @Slot()
    def stop(self) -> None:
        """Starts no more rows, and stops the running ones within one denoising step."""
        self._preparing.drop()
        self._is_stopped = self._is_stopped or self.runner.is_on
        self.runner.stop()
        self.row.stop()
        self.changed.emit()

    @Slot()
    def _model_changed(self) -> None:
        """Stops if another model was loaded, so that one model answers all rows."""
        if self.is_busy and self._context.model is not self._model:
            self.stop()

    @Slot(object)
    def _take(self, outcomes: list[RowOutcome]) -> None:
        if self.board is not None:
            self.board.take(outcomes)
            self._view.refresh([outcome.row for outcome in outcomes])
            self.changed.emit()

    @Slot()
    def _end(self) -> None:
        self._seconds = time.monotonic() - self._began
        self.order()
        self.changed.emit()

    @Slot()
    def order(self) -> None:
        """Sorts and filters the rows by the view's choice, in a thread."""
        board, table = self.board, self.table
        if table is None or self.runner.is_on:
            return
        shown = board or RowBoard(table, (), ())
        self._ordering.ask(functools.partial(shown.order, self._view.rows.key, self._view.filter.currentData()))

    @Slot(int)
    def _read_row(self, row: int) -> None:
        """Runs a row again to get its canvas. The same request gives the same answer."""
        model = self._context.model
        if self.board is None or model is None or self._context.reason_to_wait() or self.row.is_busy:
            return
        before = self._model
        if before is not None and (before.path_or_id, before.adapter) == (model.path_or_id, model.adapter):
            state = self.board.states[row]
            self.row.decide(model, state.text, self._asked, state.pictures, keep=False)

    def set_temperature(self, temperature: float) -> None:
        """Converts the answers to another temperature in a thread, without reading again."""
        board = self.board
        if board is not None and board.temperature != temperature and not self.runner.is_on:
            self._rescaling.ask(functools.partial(board.at_temperature, temperature))

    @Slot(object)
    def _show_rescaled(self, board: RowBoard) -> None:
        if self.board is not None and board.table is self.board.table and not self.runner.is_on:
            self.board = board
            self._view.show_board(board)
            self.order()
            self.changed.emit()

    @Slot(object)
    def write(self, path: Path) -> None:
        """Writes the table with its answers as CSV, in a thread."""
        board = self.board
        if board is None:
            return

        def write(path: Path) -> None:
            write_results(path, board.table, board.questions, board.results(), is_repeated=board.is_repeated)

        self._view.saver.write(path, write)

    @Slot(object)
    def _wrote(self, path: Path) -> None:
        self.written.emit(str(path))
