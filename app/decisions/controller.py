"""Connects the Decisions page to the engine and to the loaded model, and keeps the questions between two starts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Slot

from app.bridge.background import Background
from app.bridge.engine_thread import RunHandle
from app.context import DECISIONS, AppContext
from app.decisions.page import DecisionsPage
from app.design.controls import focus_in_view, show_line
from app.state.decisions.drafts import QuestionDraft, advice, obstacle, samples
from app.state.decisions.reading import DecisionReading
from app.state.run.replay import Frame, Replay
from app.system.folders import ensure
from app.system.i18n import tr
from app.system.timers import later
from engine import MINI, Recording, SafelightError
from engine.catalog import SMALL
from engine.files import read_json, write_json
from engine.service import DecisionRun, LoadedModel, decision_requests

NAME = "questions.json"  # in the data folder
FILE_BYTES = 32 * 2**20  # far more than usual questions and the longest text, 100 000 characters, take
REPEATS = 3  # further reads of an answer in doubt
SAVE_MS = 500  # after the last change


class DecisionsController(QObject):
    """The controller of the Decisions page. It decides one state at a time."""

    notice = None  # errors go through ``context.say``

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.widget = self.page = page = DecisionsPage()
        self.setParent(page)  # so that no signal arrives after the page is deleted
        self._making = Background(self, self._run, self._end)
        self._reading: DecisionReading | None = None  # of the running decision
        self._handles: list[RunHandle] = []  # of its runs
        self._problem = ""  # of the last decision
        page.column.offer([sample.title for sample in samples()])
        self._recall()
        self._saving = later(self, self._store, SAVE_MS)
        context.at_end(self.remember)
        page.decide.clicked.connect(self.decide)
        page.stop.clicked.connect(self.stop)
        page.load.clicked.connect(lambda: context.load(SMALL))
        page.column.examples.activated.connect(self._show_sample)
        page.column.state.textChanged.connect(self._changed)
        page.column.joint.toggled.connect(self._changed)
        page.questions.changed.connect(self._changed)
        page.strip.inspect_asked.connect(self._inspect)
        page.go_asked.connect(self.decide)
        context.register_busy(self)
        context.busy_changed.connect(self.refresh)
        self.refresh()

    def enter(self) -> None:
        self.page.column.state.setFocus()

    @property
    def is_busy(self) -> bool:
        """True while a decision is being prepared or running."""
        return self._making.is_busy or self._reading is not None

    def reason_to_wait(self) -> str:
        """A sentence that says that a decision is running; empty if none is."""
        return tr("Questions are being answered; Esc stops it") if self.is_busy else ""

    def _recall(self) -> None:
        """Shows the stored questions and text, or the first sample if there are none."""
        first = samples()[0]
        stored = read_questions(self._context.folders.data)
        drafts, state, is_joint = (first.drafts, first.state, True) if stored is None else stored
        self.page.column.joint.setChecked(is_joint)
        self._show(drafts, state)

    @Slot()
    def remember(self) -> None:
        """Writes the questions and the text to disk, if they have changed."""
        if self._saving.isActive():
            self._saving.stop()
            self._store()

    @Slot()
    def _store(self) -> None:
        column, drafts = self.page.column, self.page.questions.drafts
        asked = [draft.to_json() for draft in drafts]
        stored = {"questions": asked, "joint": column.joint.isChecked(), "state": column.state.raw()}
        try:
            write_json(ensure(self._context.folders.data) / NAME, stored)
        except SafelightError as error:
            self._context.say(tr(str(error)))

    @Slot()
    def _changed(self) -> None:
        self._problem = ""
        self.page.show_reading(None)
        self._saving.start()
        self.refresh()

    @Slot(int)
    def _show_sample(self, place: int) -> None:
        """Shows an example, and offers to put back what it has replaced."""
        examples = [(sample.drafts, sample.state) for sample in samples()]
        before = self.page.questions.drafts, self.page.column.state.raw()
        self._show(*examples[place])
        if before not in examples and any(before):
            said, put_back = tr("An example has replaced your questions."), functools.partial(self._show, *before)
            self._context.done.emit(said, tr("Restore mine"), put_back)

    def _show(self, drafts: Sequence[QuestionDraft], state: str) -> None:
        page = self.page
        page.show_reading(None)
        page.questions.show_drafts(drafts)
        page.column.state.setPlainText(state)

    def _reason(self) -> str:
        """Returns why nothing can be decided now, as a sentence; empty if something can."""
        model = self._model
        return self._context.reason_to_wait() or ("" if model is None else obstacle(model))

    @property
    def _model(self) -> LoadedModel | None:
        """The part of the loaded model that was made for decisions, or that model itself."""
        model = self._context.model
        return None if model is None else model.part(MINI)

    @Slot()
    def decide(self) -> None:
        """Asks the questions about the state; if something is missing, a message is shown at its field."""
        page, model = self.page, self._model
        if self._reason() or model is None or not page.questions.drafts:
            return
        state = page.column.state.raw()
        has_problem, is_empty = page.questions.find_problems(), not state.strip()
        show_line(page.column.problem, tr("Write what the questions are about.") if is_empty else "")
        if is_empty and not has_problem:
            focus_in_view(page.column.state)
        if is_empty or has_problem:
            return
        self._problem = ""
        is_joint = page.column.joint.isChecked()
        questions = [draft.question(f"q{number}") for number, draft in enumerate(page.questions.drafts, 1)]
        self._making.ask(
            lambda: decision_requests(model, state, questions, is_joint=is_joint, repeats=REPEATS, keep=True)
        )
        self._context.busy_changed.emit()

    @Slot()
    def stop(self) -> None:
        """Stops within one denoising step."""
        for handle in self._handles:
            handle.stop()
        if self._making.is_busy:
            self._making.drop()
            self._end("")

    @Slot(object)
    def _run(self, requests: tuple[DecisionRun, ...]) -> None:
        self._reading = reading = DecisionReading.from_requests(requests)
        self.page.show_reading(reading)
        for run in reading.runs:
            handle = self._context.backend.run(run.request, is_watched=False)
            handle.started.connect(run.begin)
            handle.changed.connect(run.fold)
            handle.ended.connect(run.end)
            handle.replied.connect(self._show_progress)
            self._handles.append(handle)

    @Slot()
    def _show_progress(self) -> None:
        """Shows what has come; ends the decision with its last run."""
        self.page.refresh()
        reading = self._reading
        if reading is not None and reading.is_over:
            self._reading, self._handles = None, []
            self._end(reading.problem or (tr("Stopped before the end.") if reading.was_stopped else ""))

    @Slot(str)
    def _end(self, problem: str) -> None:
        self._problem = problem
        self._context.busy_changed.emit()

    @Slot()
    def refresh(self) -> None:
        """Updates messages and buttons after a change of model, questions, state or running decision."""
        context, page = self._context, self.page
        model, busy, drafts = self._model, self.is_busy, page.questions.drafts
        reason, caution, is_right = "" if busy else self._reason(), "", False
        if model is not None:
            caution = advice(model)
            is_right = not (caution or obstacle(model))
        missing = "" if drafts else tr("Add a question, or choose an example.")
        page.show_doing(
            is_busy=busy,
            message=reason or missing or caution,
            fault=self._problem,
            can_decide=not reason and bool(drafts),
            offers=not (busy or is_right or context.loading is not None),
        )

    @Slot(object)
    def _inspect(self, asked: tuple[Recording, int]) -> None:
        trace, read = asked
        if trace.result is not None:
            self._context.navigator.inspect(trace, place=Replay(trace).place(Frame(read, 0)))

    def show(self) -> None:
        self._context.navigator.show_page(DECISIONS)


def read_questions(folder: Path) -> tuple[tuple[QuestionDraft, ...], str, bool] | None:
    """Returns the stored questions, their text, and if they are asked jointly; None if the file cannot be read."""
    try:
        raw = read_json(folder / NAME, most=FILE_BYTES)
        return tuple(map(QuestionDraft.from_json, raw["questions"])), str(raw["state"]), bool(raw["joint"])
    except (SafelightError, KeyError, TypeError, ValueError):
        return None


build = DecisionsController
