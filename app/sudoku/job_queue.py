"""One puzzle after another for the engine, which has one model at a time: load it, put an adapter on, run.

Each request is followed by a reply, and the next goes out when that has come. Knows no widgets.
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
    """Who looks at a run."""

    def began(self, view: Recording) -> None:
        """There is a trace, which grows."""

    def grew(self, share: float, /) -> None:
        """It has another event, or more of its latest step is to be shown: ``share`` of what that accepts."""

    def ended(self, view: Recording | None, problem: str) -> None:
        """It is over: ``problem`` says why it failed, empty if it did not. None where nothing was run."""


@dataclass(frozen=True, eq=False)
class PuzzleJob:
    """A puzzle for a contender. Without a puzzle only the model is made ready; without a contender it stays."""

    contender: Contender | None = None
    puzzle: str = ""  # 81 digits, 0 for a blank
    seed: int = 0
    clamp: bool = False
    follower: Follower | None = None
    keep: bool = True  # the trace as a file
    is_watched: bool = True


def was_stopped(view: Recording | None) -> bool:
    """Whether a run was ended by the user, or never begun."""
    return view is None or (view.result is not None and view.result.reason == "cancelled")


@dataclass(frozen=True)
class _Load:
    """The model of this name was asked for."""

    path_or_id: str


@dataclass(frozen=True)
class _Adapt:
    """This adapter was asked for, or none."""

    path_or_id: str | None


_Awaited = _Load | _Adapt | RunRequest  # what was asked of the engine, until the reply to it has come


class JobQueue(QObject):
    """Does one job after the other. ``changed`` tells that it began, took the next job, or ended."""

    changed = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._waiting: deque[PuzzleJob] = deque()
        self._now: PuzzleJob | None = None
        self._awaited: _Awaited | None = None
        self._view: Recording | None = None
        self._is_stopping = False  # once the reply that is awaited has come
        context.model_changed.connect(self._model_changed)
        context.backend.pacing.revealed.connect(self._grow)

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to do."""
        return self._now is not None

    @property
    def is_running(self) -> bool:
        """Whether a puzzle is being solved, rather than a model being made ready."""
        return isinstance(self._awaited, RunRequest)

    @property
    def skips(self) -> bool:
        """Says whether ``stop`` only skips to the end of a run that is computed and still shown."""
        return self.is_running and not self._waiting and self._context.backend.pacing.is_computed

    def add(self, jobs: Iterable[PuzzleJob]) -> None:
        """Do these, after what there is."""
        self._waiting.extend(jobs)
        if self._now is None:
            self._next()

    def stop(self) -> None:
        """Do nothing of what waits, and stop the run under way within one denoising step."""
        self._drop_waiting()
        match self._awaited:
            case RunRequest():
                self._context.backend.stop()
            case _Load():
                self._end(None)  # the model is loaded nevertheless
            case _Adapt():
                self._is_stopping = True

    # ---------------------------------------------------------------- asking

    def _next(self) -> None:
        self._awaited, self._view, self._is_stopping = None, None, False
        self._now = self._waiting.popleft() if self._waiting else None
        if self._now is not None:
            self._ask()
        self.changed.emit()

    def _ask(self) -> None:
        """Ask for what the job at hand needs next: its model, the adapter on it, or the run.

        What was asked for and is not there when its reply has come is gone for good, as another model was chosen.
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
        """Ask for a model, or for the adapter on it. What is only wanted for a puzzle is borrowed, and else stays."""
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

    # ---------------------------------------------------------------- ending

    def _drop_waiting(self) -> None:
        while self._waiting:
            _tell_end(self._waiting.popleft(), None)

    def _abandon(self, problem: str, details: str = "") -> None:
        self._drop_waiting()
        if problem:
            self._context.say(problem, details)
        self._end(self._view, problem)

    def _end(self, view: Recording | None, problem: str = "") -> None:
        self._awaited = None
        if self._now is not None:  # until it has been told: a follower may ask for more, which then waits
            _tell_end(self._now, view, problem)
        self._next()

    # ---------------------------------------------------------------- replies

    @Slot()
    def _model_changed(self) -> None:
        """The model that was asked for may be there, or may have failed to come; or the user chose another one."""
        if not isinstance(self._awaited, _Load):
            return
        model, loading, wanted = self._context.model, self._context.loading, self._awaited.path_or_id
        if model is not None and model.path_or_id == wanted:
            self._ask()
        elif loading is None or loading.path_or_id != wanted:
            self._abandon("")  # the context has said why

    def take(self, reply: ServiceReply) -> None:
        """Take in what arrived from the engine; what answers no request of this queue is left alone."""
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


def _tell_end(job: PuzzleJob, view: Recording | None, problem: str = "") -> None:
    if job.follower is not None and job.puzzle:
        job.follower.ended(view, problem)
