"""Runs one puzzle at a time, or sets an adapter.

Each request to the engine waits for the reply to the one before. Has no widgets.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal, Slot

from app.context import AppContext
from app.sudoku.solving import obstacle, settings, solver
from app.system.i18n import tr
from engine import Recording, SafelightError
from engine.service import AdapterChanged, PuzzleRun, RunAdvanced, RunEnded, RunRequest, RunStarted, ServiceReply
from engine.tasks import sudoku


@dataclass(frozen=True, eq=False)
class PuzzleJob:
    """A puzzle for the loaded model; without a puzzle, an adapter for it."""

    puzzle: str = ""  # 81 digits, 0 for a blank
    seed: int = 0
    keeps_givens: bool = False
    adapter: str | None = None


@dataclass(frozen=True)
class _Adapt:
    """A request to set an adapter, or none."""

    path_or_id: str | None


_Awaited = _Adapt | RunRequest  # a request whose reply is awaited


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
        context.backend.pacing.revealed.connect(self._grow)

    @property
    def is_busy(self) -> bool:
        """True while there is a job."""
        return self._job is not None

    @property
    def is_running(self) -> bool:
        """True while a puzzle is being solved, rather than an adapter set."""
        return isinstance(self._awaited, RunRequest)

    @property
    def skips(self) -> bool:
        """True if ``stop`` only skips to the end of a run that is computed but not fully shown."""
        return self.is_running and self._context.backend.pacing.is_computed

    def begin(self, job: PuzzleJob) -> None:
        """Begins a job; only while there is none."""
        assert self._job is None
        self._job, self._awaited, self._view = job, None, None
        if job.puzzle:
            self._run(job)
        else:
            self._awaited = _Adapt(job.adapter)
            self._context.backend.set_adapter(job.adapter)
        self.changed.emit()

    def stop(self) -> None:
        """Stops the job within one denoising step."""
        match self._awaited:
            case RunRequest():
                self._context.backend.stop()
            case _Adapt():
                self._end()  # it is set all the same

    def _run(self, job: PuzzleJob) -> None:
        context, model = self._context, solver(self._context.model)
        problem = tr("No model is loaded. Choose one above") if model is None else obstacle(model)
        if model is None or problem:
            self._fail(problem)
            return
        config = context.values.config(model.defaults, model.decoders)
        try:
            config = settings(model, config, job.puzzle, keep=job.keeps_givens)
        except SafelightError as error:
            self._fail(str(error))
            return
        messages = ({"role": "user", "content": sudoku.to_prompt(job.puzzle)},)
        self._awaited = asked = PuzzleRun(config, job.seed, messages)
        context.backend.run(asked)

    def _fail(self, problem: str, details: str = "") -> None:
        self._context.say(problem, details)
        self._end(problem)

    def _end(self, problem: str = "") -> None:
        job, self._job, self._awaited = self._job, None, None
        if job is not None and job.puzzle:
            self.ended.emit(problem)
        self.changed.emit()

    def take(self, reply: ServiceReply) -> None:
        """Processes replies of the engine and ignores those to requests of others."""
        match reply:
            case AdapterChanged(path_or_id) if self._awaited == _Adapt(path_or_id):
                self._end()  # where it failed, the context has said why
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
