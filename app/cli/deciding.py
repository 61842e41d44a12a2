"""Decides many states with a scheduler, several at a time, and yields the results in order. Prints nothing."""

from __future__ import annotations

import argparse
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from app.cli.loading import POLL_SECONDS, ChosenBackend, load, remote_backend
from engine import DECIDER, SIGHT, SafelightError
from engine.pictures import BLIND, Picture
from engine.service import (
    BackendRouter,
    DecisionReads,
    LoadedModel,
    RunAdvanced,
    RunEnded,
    RunRequest,
    Scheduler,
    ServiceReply,
    decision_requests,
)
from engine.tasks.decisions.answers import LabelRead, TypedAnswer, answer_of
from engine.tasks.decisions.question_file import QuestionFile

IN_FLIGHT = 4  # states for each parallel run, so that no run waits for the next state

SlotReads: TypeAlias = tuple[LabelRead, ...]
"""All reads of one question."""
ToDecide: TypeAlias = tuple[str, Callable[[], Sequence[Picture]]]
"""A state, and what gives its pictures when they are needed; it may raise SafelightError."""
_OfRun: TypeAlias = RunAdvanced | RunEnded


@dataclass(frozen=True)
class StateResult:
    """The result of a state: the reads of each question, or the reason why there are none."""

    reads: tuple[SlotReads, ...] = ()
    problem: str = ""
    is_run_failure: bool = False  # True if the run failed for a reason that is probably not the state's content

    def answers(self, asked: QuestionFile) -> tuple[TypedAnswer, ...]:
        """Returns the answer to each question."""
        return tuple(
            answer_of(question, reads, asked.temperature)
            for question, reads in zip(asked.questions, self.reads, strict=True)
        )


@dataclass
class _Open:
    """A state whose runs have not all ended."""

    runs: tuple[tuple[RunRequest, DecisionReads], ...] = ()
    left: int = 0
    problem: str = ""

    def result(self) -> StateResult:
        if self.problem:
            return StateResult(problem=self.problem)
        try:
            return StateResult(tuple(one for _, reads in self.runs for one in reads.label_reads()))
        except SafelightError as error:
            return StateResult(problem=str(error), is_run_failure=True)


@dataclass
class _Inbox:
    """An ``Outlet`` that takes replies of runs only; another thread fetches them."""

    is_full = False
    replies: queue.SimpleQueue[_OfRun] = field(default_factory=queue.SimpleQueue)

    def put(self, reply: ServiceReply) -> None:
        if isinstance(reply, _OfRun):
            self.replies.put(reply)


@dataclass(frozen=True)
class Decider:
    """Decides questions with a scheduler and its loaded model. ``stop`` ends everything within a step."""

    scheduler: Scheduler
    model: LoadedModel
    asked: QuestionFile
    stop: threading.Event

    def requests(self, state: str, pictures: Sequence[Picture] = ()) -> tuple[RunRequest, ...]:
        """Returns the runs that decide a state.

        Raises:
            SafelightError: they cannot be decided.
        """
        asked = self.asked
        return decision_requests(
            self.model,
            state,
            asked.questions,
            instructions=asked.instructions,
            is_joint=asked.is_joint,
            repeats=asked.repeats,
            pictures=pictures,
        )

    def check(self, has_pictures: bool) -> None:
        """Checks that the model can decide these questions about some state, and that it can see if there are pictures.

        Raises:
            SafelightError: it cannot; the sentence says why.
        """
        self.requests("-")
        if has_pictures and not self.model.capabilities.images:
            raise SafelightError(BLIND)

    def decide(self, states: Iterable[ToDecide]) -> Iterator[StateResult]:
        """Yields the result of each state, in order; ends early if stopped.

        Raises:
            SafelightError: the scheduler ended by itself.
        """
        inbox, waiting = _Inbox(), iter(states)
        in_flight: deque[_Open] = deque()
        whose: dict[str, tuple[_Open, DecisionReads]] = {}
        most = IN_FLIGHT * max(1, self.scheduler.capabilities.parallel_runs)
        try:
            while not self.stop.is_set():
                while len(in_flight) < most and (state := next(waiting, None)) is not None:
                    in_flight.append(self._begin(state, inbox, whose))
                if not in_flight:
                    return
                if in_flight[0].left:
                    self._take(inbox, whose)
                else:
                    yield in_flight.popleft().result()
        finally:
            self.scheduler.stop(*(request for one in in_flight for request, _ in one.runs))

    def _begin(self, state: ToDecide, inbox: _Inbox, whose: dict[str, tuple[_Open, DecisionReads]]) -> _Open:
        try:
            text, pictures = state
            requests = self.requests(text, pictures())
        except SafelightError as error:
            return _Open(problem=str(error))
        runs = tuple((request, DecisionReads(request.decision)) for request in requests if request.decision)
        opened = _Open(runs, len(runs))
        for request, reads in runs:
            whose[request.run_id] = opened, reads
            self.scheduler.run(request, inbox)
        return opened

    def _take(self, inbox: _Inbox, whose: dict[str, tuple[_Open, DecisionReads]]) -> None:
        """Waits ``POLL_SECONDS`` for the next reply and adds it to its state."""
        try:
            reply = inbox.replies.get(timeout=POLL_SECONDS)
        except queue.Empty:
            if not self.scheduler.is_alive:
                raise SafelightError("the engine stopped unexpectedly; run the command again") from None
            return
        opened, reads = whose[reply.run_id]
        reads.add(reply)
        if isinstance(reply, RunEnded):
            opened.left -= 1
            del whose[reply.run_id]


@contextmanager
def deciding(
    args: argparse.Namespace, asked: QuestionFile, stop: threading.Event, has_pictures: bool
) -> Iterator[Decider | None]:
    """Yields a decider with the model of the options; None if stopped. Questions about pictures have their own default
    model.

    Raises:
        SafelightError: it cannot be loaded, or cannot decide these questions.
    """
    scheduler = Scheduler(BackendRouter(ChosenBackend(args), remote_backend))
    try:
        model = load(args, scheduler, stop, SIGHT if has_pictures else DECIDER)
        if model is None:
            yield None
            return
        decider = Decider(scheduler, model, asked, stop)
        decider.check(has_pictures)
        yield decider
    finally:
        scheduler.close()
