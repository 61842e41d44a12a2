"""Runs puzzles one after the other. The engine holds one model, so a job first loads its model and sets its adapter.

Each request to the engine waits for the reply to the one before. Has no widgets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from PySide6.QtCore import QObject, Signal, Slot

from app.context import AppContext
from app.sudoku.contenders import Contender, obstacle, settings
from app.system.i18n import tr
from engine import Recording, SafelightError
from engine.service import AdapterChanged, RunAdvanced, RunEnded, RunRequest, RunStarted, ServiceReply
from engine.tasks import sudoku


class Follower(Protocol):
    """Receives the events of a job's run."""

    def began(self, view: Recording) -> None:
        """The run has begun; ``view`` is its growing trace."""

    def grew(self, share: float, /) -> None:
        """The trace has a new event, or more of its latest step is to be shown: a ``share`` of its accepted tokens."""

    def ended(self, view: Recording | None, problem: str) -> None:
        """The job is over. ``view`` is None if nothing was run; ``problem`` says why it failed, empty if it did not."""


@dataclass(frozen=True, eq=False)
class PuzzleJob:
    """A puzzle for a contender. Without a puzzle, only the model is loaded; without a contender, it stays."""

    contender: Contender | None = None
    puzzle: str = ""  # 81 digits, 0 for a blank
    seed: int = 0
    clamp: bool = False
    follower: Follower | None = None
    keep: bool = True  # store the trace as a file
    is_watched: bool = True


def was_stopped(view: Recording | None) -> bool:
    """Returns True if a run was stopped by the user, or never began."""
    return view is None or (view.result is not None and view.result.reason == "cancelled")


@dataclass(frozen=True)
class _Load:
    """A request to load a model."""

    path_or_id: str


@dataclass(frozen=True)
class _Adapt:
    """A request to set an adapter, or none."""

    path_or_id: str | None


_Awaited = _Load | _Adapt | RunRequest  # a request whose reply is awaited


class JobQueue(QObject):
    """Runs one job after the other. ``changed``: it began, took the next job, or ended."""

    changed = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._waiting: deque[PuzzleJob] = deque()
        self._now: PuzzleJob | None = None
        self._awaited: _Awaited | None = None
        self._view: Recording | None = None
        self._is_stopping = False  # stop after the awaited reply
        context.model_changed.connect(self._model_changed)
        context.backend.pacing.revealed.connect(self._grow)

    @property
    def is_busy(self) -> bool:
        """True while there is a job."""
        return self._now is not None

    @property
    def is_running(self) -> bool:
        """True while a puzzle is being solved, rather than a model loaded for it."""
        return isinstance(self._awaited, RunRequest)

    @property
    def skips(self) -> bool:
        """True if ``stop`` only skips to the end of a run that is computed but not fully shown."""
        return self.is_running and not self._waiting and self._context.backend.pacing.is_computed

    def add(self, jobs: Iterable[PuzzleJob]) -> None:
        """Appends jobs."""
        self._waiting.extend(jobs)
        if self._now is None:
            self._next()

    def stop(self) -> None:
        """Drops all waiting jobs, and stops the running one within one denoising step."""
        self._drop_waiting()
        match self._awaited:
            case RunRequest():
                self._context.backend.stop()
            case _Load():
                self._end(None)  # loading continues
            case _Adapt():
                self._is_stopping = True

    def _next(self) -> None:
        self._awaited, self._view, self._is_stopping = None, None, False
        self._now = self._waiting.popleft() if self._waiting else None
        if self._now is not None:
            self._ask()
        self.changed.emit()

    def _ask(self) -> None:
        """Requests what the current job needs next: its model, its adapter, or its run.

        Abandons the job if the model or adapter is not there after its reply: then another one was chosen.
        """
        job, model, asked = self._now, self._context.model, self._awaited
        assert job is not None
        want = job.contender
        if want is not None and (model is None or model.path_or_id != want.model):
            if asked is not None:
                self._abandon("")
                return
            self._awaited = _Load(want.model)
            self._make_ready(want, bool(job.puzzle))
        elif want is not None and model is not None and model.adapter != want.adapter:
            if isinstance(asked, _Adapt):
                self._abandon("")
                return
            self._awaited = _Adapt(want.adapter)
            self._make_ready(want, bool(job.puzzle))
        elif job.puzzle:
            self._run(job)
        else:
            self._next()

    def _make_ready(self, want: Contender, is_for_puzzle: bool) -> None:
        """Requests a model, or its adapter. For a puzzle it is only borrowed; otherwise it stays."""
        context, model = self._context, self._context.model
        is_there = model is not None and model.path_or_id == want.model
        if is_for_puzzle:
            context.borrow(want.model, want.adapter if is_there else None)
        elif is_there:
            context.backend.set_adapter(want.adapter)
        else:
            context.load(want.model)

    def _run(self, job: PuzzleJob) -> None:
        context, model = self._context, self._context.model
        problem = tr("No model is loaded. Choose one above") if model is None else obstacle(model)
        if model is None or problem:
            self._abandon(problem)
            return
        try:
            config = settings(model, context.values.config(model.defaults), job.puzzle, clamp=job.clamp)
        except SafelightError as error:
            self._abandon(str(error))
            return
        messages = ({"role": "user", "content": sudoku.to_prompt(job.puzzle)},)
        self._awaited = asked = RunRequest("puzzle", messages, config, job.seed, keep=job.keep)
        context.backend.run(asked, is_watched=job.is_watched)

    def _drop_waiting(self) -> None:
        while self._waiting:
            _report_end(self._waiting.popleft(), None)

    def _abandon(self, problem: str, details: str = "") -> None:
        self._drop_waiting()
        if problem:
            self._context.say(problem, details)
        self._end(self._view, problem)

    def _end(self, view: Recording | None, problem: str = "") -> None:
        self._awaited = None
        if self._now is not None:  # still set during the report: a job that a follower adds then must wait
            _report_end(self._now, view, problem)
        self._next()

    @Slot()
    def _model_changed(self) -> None:
        """Continues the job if its model was loaded; abandons it if loading failed or another one was chosen."""
        if not isinstance(self._awaited, _Load):
            return
        model, loading, wanted = self._context.model, self._context.loading, self._awaited.path_or_id
        if model is not None and model.path_or_id == wanted:
            self._ask()
        elif loading is None or loading.path_or_id != wanted:
            self._abandon("")  # the context has said why

    def take(self, reply: ServiceReply) -> None:
        """Processes replies of the engine and ignores those to requests of others."""
        match reply:
            case AdapterChanged(path_or_id, _, problem) if self._awaited == _Adapt(path_or_id):
                if problem or self._is_stopping:
                    self._abandon("")  # the context has said why
                else:
                    self._ask()
            case RunStarted() | RunAdvanced() | RunEnded():
                asked = self._awaited
                if isinstance(asked, RunRequest) and asked.run_id == reply.run_id and self._now is not None:
                    self._take_run(self._now, reply)

    def _take_run(self, job: PuzzleJob, reply: RunStarted | RunAdvanced | RunEnded) -> None:
        match reply:
            case RunStarted(_, trace):
                self._view = trace
                if job.follower is not None:
                    job.follower.began(self._view)
            case RunAdvanced():
                self._grow(self._context.backend.pacing.share)
            case RunEnded(_, problem, details):
                if problem:
                    self._abandon(tr(problem), details)
                    return
                if was_stopped(self._view):
                    self._drop_waiting()
                self._end(self._view)

    @Slot(float)
    def _grow(self, share: float) -> None:
        if self._view is not None and self._now is not None and self._now.follower is not None:
            self._now.follower.grew(share)


def _report_end(job: PuzzleJob, view: Recording | None, problem: str = "") -> None:
    if job.follower is not None and job.puzzle:
        job.follower.ended(view, problem)
