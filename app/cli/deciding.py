"""Decides many states with a scheduler, several at a time, and yields the results in order. Prints nothing."""

from __future__ import annotations

import argparse
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from app.cli.loading import POLL_SECONDS, ChosenBackend, load, remote_backend
from engine import SafelightError
from engine.pictures import Picture
from engine.service import (
    BackendRouter,
    DecisionReads,
    DecisionRun,
    LoadedModel,
    RunAdvanced,
    RunEnded,
    Scheduler,
    ServiceReply,
    decision_requests,
    small,
)
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.forms import QuestionFile

IN_FLIGHT = 4  # states for each parallel run, so that no run waits for the next state

Decided: TypeAlias = tuple[TypedAnswer, ...] | str
"""The answers about a state, or the reason why there are none."""


class _Run:
    """A run of a decision, and the ``Outlet`` that collects its replies."""

    is_full = False

    def __init__(self, request: DecisionRun) -> None:
        self.request, self.reads, self.ended = request, DecisionReads(request.decision), threading.Event()

    def put(self, reply: ServiceReply) -> None:
        if isinstance(reply, RunAdvanced | RunEnded):
            self.reads.add(reply)
        if isinstance(reply, RunEnded):
            self.ended.set()


@dataclass(frozen=True)
class Decider:
    """Decides questions with a scheduler and its loaded model. ``stop`` ends everything within a step."""

    scheduler: Scheduler
    model: LoadedModel
    asked: QuestionFile
    stop: threading.Event

    def requests(self, state: str, pictures: Sequence[Picture] = ()) -> tuple[DecisionRun, ...]:
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
            is_joint=asked.joint,
            repeats=asked.repeats,
            pictures=pictures,
        )

    def decide(self, states: Iterable[str], pictures: Sequence[Picture] = ()) -> Iterator[Decided]:
        """Yields what is decided about each state, in order; ends early if stopped.

        Raises:
            SafelightError: the scheduler ended by itself.
        """
        waiting, in_flight = iter(states), deque[list[_Run] | str]()
        most = IN_FLIGHT * max(1, self.scheduler.capabilities.parallel_runs)
        try:
            while True:
                while len(in_flight) < most and (state := next(waiting, None)) is not None:
                    in_flight.append(self._begin(state, pictures))
                result = self._result(in_flight[0]) if in_flight else None
                if result is None:
                    return
                in_flight.popleft()
                yield result
        finally:
            self.scheduler.stop(*(run.request for runs in in_flight if not isinstance(runs, str) for run in runs))

    def _begin(self, state: str, pictures: Sequence[Picture]) -> list[_Run] | str:
        """Starts the runs of a state; returns why if it cannot be asked."""
        try:
            runs = [_Run(request) for request in self.requests(state, pictures)]
        except SafelightError as error:
            return str(error)
        for run in runs:
            self.scheduler.run(run.request, run)
        return runs

    def _result(self, runs: list[_Run] | str) -> Decided | None:
        """Waits for the runs of a state; returns None if stopped."""
        if isinstance(runs, str):
            return runs
        for run in runs:
            while self.stop.is_set() or not run.ended.wait(POLL_SECONDS):
                if self.stop.is_set():
                    return None
                if not self.scheduler.is_alive:
                    raise SafelightError("the engine stopped unexpectedly; run the command again")
        try:
            return tuple(answer for run in runs for answer in run.reads.answers(self.asked.temperature))
        except SafelightError as error:
            return str(error)


@contextmanager
def deciding(
    args: argparse.Namespace, asked: QuestionFile, stop: threading.Event, pictures: Sequence[Picture] = ()
) -> Iterator[Decider | None]:
    """Yields a decider with the model of the options; None if stopped. Questions about pictures have their own default
    model.

    Raises:
        SafelightError: it cannot be loaded, or cannot decide these questions.
    """
    scheduler = Scheduler(BackendRouter(ChosenBackend(args), remote_backend))
    try:
        model = load(args, scheduler, stop, small.decider(pictures))
        if model is None:
            yield None
            return
        decider = Decider(scheduler, model, asked, stop)
        decider.requests("-", pictures)  # so that questions that no state can be asked fail once
        yield decider
    finally:
        scheduler.close()
