"""Runs one puzzle at a time. The engine holds one model, so a job first loads its model and sets its adapter.

Each request to the engine waits for the reply to the one before. Has no widgets.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal, Slot

from app.context import AppContext, ModelChoice
from app.sudoku.solving import obstacle, settings
from app.system.i18n import tr
from engine import Recording, SafelightError
from engine.service import AdapterChanged, RunAdvanced, RunEnded, RunRequest, RunStarted, ServiceReply
from engine.tasks import sudoku


@dataclass(frozen=True, eq=False)
class PuzzleJob:
    """A puzzle for a model. Without a puzzle, the model is only loaded; without a model, the loaded one solves it."""

    model: ModelChoice | None = None
    puzzle: str = ""  # 81 digits, 0 for a blank
    seed: int = 0
    keeps_givens: bool = False


@dataclass(frozen=True)
class _Load:
    """A request to load a model."""

    path_or_id: str


@dataclass(frozen=True)
class _Adapt:
    """A request to set an adapter, or none."""

    path_or_id: str | None


_Awaited = _Load | _Adapt | RunRequest  # a request whose reply is awaited


class PuzzleRunner(QObject):
    """Runs one job at a time. ``changed``: it began, began to run, or ended. The others are of jobs with a puzzle."""

    changed = Signal()
    began = Signal(object)  # the growing Recording of its run
    grew = Signal(float)  # the recording has a new event, or more of its latest step is to be shown: a share of it
    ended = Signal(str)  # why it failed; empty if it did not

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._job: PuzzleJob | None = None
        self._awaited: _Awaited | None = None
        self._view: Recording | None = None
        self._is_stopping = False  # stop after the awaited reply
        context.model_changed.connect(self._model_changed)
        context.backend.pacing.revealed.connect(self._grow)

    @property
    def is_busy(self) -> bool:
        """True while there is a job."""
        return self._job is not None

    @property
    def is_running(self) -> bool:
        """True while a puzzle is being solved, rather than a model loaded for it."""
        return isinstance(self._awaited, RunRequest)

    @property
    def skips(self) -> bool:
        """True if ``stop`` only skips to the end of a run that is computed but not fully shown."""
        return self.is_running and self._context.backend.pacing.is_computed

    def begin(self, job: PuzzleJob) -> None:
        """Begins a job; only while there is none."""
        assert self._job is None
        self._job, self._awaited, self._view, self._is_stopping = job, None, None, False
        self._ask()
        self.changed.emit()

    def stop(self) -> None:
        """Stops the job within one denoising step."""
        match self._awaited:
            case RunRequest():
                self._context.backend.stop()
            case _Load():
                self._end()  # loading continues
            case _Adapt():
                self._is_stopping = True

    def _ask(self) -> None:
        """Requests what the job needs next: its model, its adapter, or its run.

        Ends the job if the model or adapter is not there after its reply: then another one was chosen.
        """
        job, model, asked = self._job, self._context.model, self._awaited
        assert job is not None
        want = job.model
        if want is not None and (model is None or model.path_or_id != want.path_or_id):
            if asked is not None:
                self._end()
                return
            self._awaited = _Load(want.path_or_id)
            self._make_ready(want, bool(job.puzzle))
        elif want is not None and model is not None and model.adapter != want.adapter:
            if isinstance(asked, _Adapt):
                self._end()
                return
            self._awaited = _Adapt(want.adapter)
            self._make_ready(want, bool(job.puzzle))
        elif job.puzzle:
            self._run(job)
        else:
            self._end()

    def _make_ready(self, want: ModelChoice, is_for_puzzle: bool) -> None:
        """Requests a model, or its adapter. For a puzzle it is only borrowed; otherwise it stays."""
        context, model = self._context, self._context.model
        is_there = model is not None and model.path_or_id == want.path_or_id
        if is_for_puzzle:
            context.borrow(want.path_or_id, want.adapter if is_there else None)
        elif is_there:
            context.backend.set_adapter(want.adapter)
        else:
            context.load(want.path_or_id)

    def _run(self, job: PuzzleJob) -> None:
        context, model = self._context, self._context.model
        problem = tr("No model is loaded. Choose one above") if model is None else obstacle(model)
        if model is None or problem:
            self._fail(problem)
            return
        try:
            config = settings(model, context.values.config(model.defaults), job.puzzle, keep=job.keeps_givens)
        except SafelightError as error:
            self._fail(str(error))
            return
        messages = ({"role": "user", "content": sudoku.to_prompt(job.puzzle)},)
        self._awaited = asked = RunRequest("puzzle", messages, config, job.seed)
        context.backend.run(asked)

    def _fail(self, problem: str, details: str = "") -> None:
        self._context.say(problem, details)
        self._end(problem)

    def _end(self, problem: str = "") -> None:
        job, self._job, self._awaited = self._job, None, None
        if job is not None and job.puzzle:
            self.ended.emit(problem)
        self.changed.emit()

    @Slot()
    def _model_changed(self) -> None:
        """Continues the job if its model was loaded; ends it if loading failed or another one was chosen."""
        if not isinstance(self._awaited, _Load):
            return
        model, loading, wanted = self._context.model, self._context.loading, self._awaited.path_or_id
        if model is not None and model.path_or_id == wanted:
            self._ask()
            self.changed.emit()
        elif loading is None or loading.path_or_id != wanted:
            self._end()  # the context has said why

    def take(self, reply: ServiceReply) -> None:
        """Processes replies of the engine and ignores those to requests of others."""
        match reply:
            case AdapterChanged(path_or_id, _, problem) if self._awaited == _Adapt(path_or_id):
                if problem or self._is_stopping:
                    self._end()  # the context has said why
                else:
                    self._ask()
                    self.changed.emit()
            case RunStarted() | RunAdvanced() | RunEnded():
                asked = self._awaited
                if isinstance(asked, RunRequest) and asked.run_id == reply.run_id and self._job is not None:
                    self._take_run(reply)

    def _take_run(self, reply: RunStarted | RunAdvanced | RunEnded) -> None:
        match reply:
            case RunStarted(_, trace):
                self._view = trace
                self.began.emit(self._view)
            case RunAdvanced():
                self._grow(self._context.backend.pacing.share)
            case RunEnded(_, problem, details):
                if problem:
                    self._fail(tr(problem), details)
                else:
                    self._end()

    @Slot(float)
    def _grow(self, share: float) -> None:
        if self._view is not None and self._job is not None:
            self.grew.emit(share)
