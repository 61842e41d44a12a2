"""One puzzle after another for the engine's thread, which has one model at a time: load it, put an adapter on, run.

Each waits for the answer to the one before. Knows no widgets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from PySide6.QtCore import QObject, Signal

from app.bridge.messages import AdapterChanged, Message, TrialEnded, TrialGrown, TrialRequest, TrialStarted
from app.player.run_view import RunView
from app.sudoku.contenders import Contender, obstacle, settings
from app.system.i18n import tr
from engine import SafelightError
from engine.tasks import sudoku

if TYPE_CHECKING:
    from app.window.main_window import MainWindow

Stage = Literal["", "load", "adapt", "run"]


class Follower(Protocol):
    """Who looks at a run."""

    def began(self, view: RunView) -> None:
        """There is a trace, which grows."""

    def grew(self) -> None:
        """It has another event."""

    def ended(self, view: RunView | None, problem: str) -> None:
        """It is over: ``problem`` says why it failed, empty if it did not. None where nothing was run."""


@dataclass(frozen=True, eq=False)
class Job:
    """A puzzle for a contender. Without a puzzle only the model is made ready; without a contender it stays."""

    contender: Contender | None = None
    puzzle: str = ""  # 81 digits, 0 for a blank
    seed: int = 0
    clamp: bool = False
    follower: Follower | None = None
    keep: bool = True  # the trace as a file
    paced: bool = True


def was_stopped(view: RunView | None) -> bool:
    """Whether a run was ended by the user, or never begun."""
    return view is None or (view.result is not None and view.result.reason == "cancelled")


class Work(QObject):
    """A queue. ``changed`` tells that it began, took the next job, or ended."""

    changed = Signal()

    def __init__(self, window: MainWindow, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._window = window
        self._waiting: deque[Job] = deque()
        self._now: Job | None = None
        self._stage: Stage = ""
        self._view: RunView | None = None
        self._is_stopping = False

    @property
    def is_busy(self) -> bool:
        """Whether there is anything to do."""
        return self._now is not None

    @property
    def is_running(self) -> bool:
        """Whether a puzzle is being solved, rather than a model being made ready."""
        return self._stage == "run"

    def add(self, jobs: Iterable[Job]) -> None:
        """Do these, after what there is."""
        self._waiting.extend(jobs)
        if self._now is None:
            self._next()

    def stop(self) -> None:
        """Do nothing of what waits, and stop the run under way within one denoising step."""
        self._drop_waiting()
        match self._stage:
            case "run":
                self._window.link.cancel()
            case "load":
                self._end(None)  # the model is loaded nevertheless
            case "adapt":
                self._is_stopping = True

    # ---------------------------------------------------------------- going on

    def _next(self) -> None:
        self._stage, self._view, self._is_stopping = "", None, False
        self._now = self._waiting.popleft() if self._waiting else None
        if self._now is not None:
            self._go_on()
        else:
            self._window.link.pace_ms = self._window.values.pace_ms
        self.changed.emit()

    def _go_on(self) -> None:
        """Take the next stage of the job at hand."""
        job, window = self._now, self._window
        assert job is not None
        want, model = job.contender, window.model
        if want is not None and (model is None or model.path_or_id != want.model):
            if self._stage:
                self._abandon("")  # another model was chosen meanwhile
                return
            self._stage = "load"
            window.load(want.model)
        elif want is not None and model is not None and model.adapter != want.adapter:
            if self._stage == "adapt":
                self._abandon("")
                return
            self._stage = "adapt"
            window.link.adapt(want.adapter)
        elif job.puzzle:
            self._run(job)
        else:
            self._next()

    def _run(self, job: Job) -> None:
        window = self._window
        model = window.model
        problem = tr("No model is loaded. Choose one above") if model is None else obstacle(model)
        if model is None or problem:
            self._abandon(problem)
            return
        try:
            config = settings(model, window.values.config(model.defaults), job.puzzle, clamp=job.clamp)
        except SafelightError as error:
            self._abandon(str(error))
            return
        self._stage = "run"
        self.keep_pace()
        messages = ({"role": "user", "content": sudoku.to_prompt(job.puzzle)},)
        window.link.trial(TrialRequest(messages, config, job.seed, keep=job.keep))

    def keep_pace(self) -> None:
        """Let a run that is not looked at go as fast as it can; the window's settings may have said otherwise."""
        if self._stage == "run" and self._now is not None:
            pace = self._window.values.pace_ms if self._now.paced else 0
            if self._window.link.pace_ms != pace:
                self._window.link.pace_ms = pace

    def _drop_waiting(self) -> None:
        while self._waiting:
            _tell_end(self._waiting.popleft(), None)

    def _abandon(self, problem: str, details: str = "") -> None:
        self._drop_waiting()
        if problem:
            self._window.say(problem, details)
        self._end(self._view, problem)

    def _end(self, view: RunView | None, problem: str = "") -> None:
        self._stage = ""
        if self._now is not None:  # until it has been told: a follower may ask for more, which then waits
            _tell_end(self._now, view, problem)
        self._next()

    # ---------------------------------------------------------------- what arrives

    def look(self) -> None:
        """The model may be there, or may have failed to come."""
        self.keep_pace()
        if self._stage != "load" or self._now is None or self._now.contender is None:
            return
        model = self._window.model
        if model is not None and model.path_or_id == self._now.contender.model:
            self._go_on()
        elif not self._window.loading_text or model is not None:
            self._abandon("")  # the window has said why

    def adapter_changed(self, change: AdapterChanged) -> None:
        """The model has another adapter, or could not take it."""
        if self._stage != "adapt":
            return
        if change.message or self._is_stopping:
            self._abandon("")  # the window has said why
        else:
            self._go_on()

    def take(self, message: Message) -> None:
        """What arrives of the run under way."""
        job = self._now
        if job is None or self._stage != "run":
            return
        match message:
            case TrialStarted(trace):
                self._view = RunView(trace)
                if job.follower is not None:
                    job.follower.began(self._view)
            case TrialGrown():
                if self._view is not None:
                    self._view.advance()
                if job.follower is not None:
                    job.follower.grew()
            case TrialEnded(problem, details):
                if self._view is not None:
                    self._view.show_all()
                if problem:
                    self._abandon(problem, details)
                    return
                if was_stopped(self._view):
                    self._drop_waiting()
                self._end(self._view)


def _tell_end(job: Job, view: RunView | None, problem: str = "") -> None:
    if job.follower is not None and job.puzzle:
        job.follower.ended(view, problem)
