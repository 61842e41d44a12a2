"""The queue of loads, adapters and runs: each request is followed by its own reply, and by no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.sudoku.contenders import Contender
from app.sudoku.job_queue import JobQueue, PuzzleJob, was_stopped
from app.sudoku.words import SAMPLE
from engine import SKILLS, Recording
from engine import SUDOKU as MODEL
from engine.service import AdapterChanged, RunAdvanced, RunEnded
from tests.app.sudoku.solver_engine import SolverEngine

Open = Callable[..., AppContext]
RUN_MS = 60_000


@pytest.fixture
def fake() -> SolverEngine:
    return SolverEngine()


class Follower:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.begun: list[Recording] = []
        self.grown = 0
        self.ends: list[tuple[bool, str]] = []  # whether it was stopped or never begun, and what went wrong

    def began(self, view: Recording) -> None:
        self.begun.append(view)

    def grew(self, _share: float) -> None:
        self.grown += 1

    def ended(self, view: Recording | None, problem: str) -> None:
        self.ends.append((was_stopped(view), problem))


def queue_of(context: AppContext) -> JobQueue:
    """A queue that hears what arrives."""
    queue = JobQueue(context)
    context.arrived.connect(lambda replies: [queue.take(reply) for reply in replies])
    return queue


def idle(qtbot: QtBot, queue: JobQueue) -> None:
    qtbot.waitUntil(lambda: not queue.is_busy, timeout=RUN_MS)


def test_a_job_loads_puts_on_and_runs_only_what_is_not_there(
    qtbot: QtBot, open_context: Open, fake: SolverEngine
) -> None:
    queue, follower = queue_of(open_context(SKILLS)), Follower()
    tuned = Contender(MODEL, "lora")
    queue.add([PuzzleJob(tuned, SAMPLE, seed, follower=follower) for seed in (1, 2)])
    assert queue.is_busy
    assert not queue.is_running
    idle(qtbot, queue)
    assert fake.loads == [SKILLS, MODEL]
    assert fake.adapters == ["lora"]
    assert fake.seeds == [1, 2]
    assert follower.ends == [(False, ""), (False, "")]
    assert follower.grown == sum(len(view.entries) for view in follower.begun)


def test_replies_to_others_are_left_alone(qtbot: QtBot, open_context: Open, fake: SolverEngine) -> None:
    queue, follower = queue_of(open_context(MODEL)), Follower()
    fake.hold = True
    queue.add([PuzzleJob(None, SAMPLE, 1, follower=follower)])
    qtbot.waitUntil(lambda: bool(follower.begun))
    grown = follower.grown
    for reply in (RunAdvanced("another", follower.begun[0].event(0)), RunEnded("another", "It failed.")):
        queue.take(reply)
    queue.take(AdapterChanged("lora", "", "It does not fit."))
    assert (follower.grown, follower.ends, queue.is_running) == (grown, [], True)
    fake.gate.release(10)
    idle(qtbot, queue)
    assert follower.ends == [(False, "")]


@pytest.mark.parametrize("other", [SKILLS, "missing"])
def test_another_model_that_is_chosen_while_one_is_loaded_ends_the_jobs(
    qtbot: QtBot, open_context: Open, fake: SolverEngine, other: str
) -> None:
    context = open_context(None)
    queue, first, second = queue_of(context), Follower(), Follower()
    queue.add(PuzzleJob(Contender(MODEL), SAMPLE, 1, follower=each) for each in (first, second))
    context.load(other)
    assert not queue.is_busy
    assert first.ends == second.ends == [(True, "")]
    qtbot.waitUntil(lambda: context.loading is None)
    assert fake.prompts == []


def test_a_model_that_cannot_be_had_ends_the_jobs(qtbot: QtBot, open_context: Open) -> None:
    queue, follower = queue_of(open_context(MODEL)), Follower()
    queue.add([PuzzleJob(Contender("missing"), SAMPLE, 1, follower=follower), PuzzleJob(None, SAMPLE, 2)])
    idle(qtbot, queue)
    assert follower.ends == [(True, "")]


def test_stopping_while_the_model_is_made_ready_runs_nothing(
    qtbot: QtBot, open_context: Open, fake: SolverEngine
) -> None:
    context = open_context(MODEL)
    queue, follower = queue_of(context), Follower()
    queue.add([PuzzleJob(Contender(MODEL, "lora"), SAMPLE, 1, follower=follower)])
    queue.stop()
    idle(qtbot, queue)
    assert context.model is not None
    assert context.model.adapter == "lora"
    queue.add([PuzzleJob(Contender(SKILLS), SAMPLE, 1, follower=follower)])
    queue.stop()
    assert not queue.is_busy
    assert follower.ends == [(True, ""), (True, "")]
    qtbot.waitUntil(lambda: context.model is not None)  # the model is loaded nevertheless
    assert fake.prompts == []


def test_a_run_that_is_not_looked_at_goes_as_fast_as_it_can(
    qtbot: QtBot, open_context: Open, fake: SolverEngine
) -> None:
    context = open_context(MODEL)
    queue, unseen, seen = queue_of(context), Follower(), Follower()
    context.values.speed = 0.001
    context.apply_values()
    queue.add([PuzzleJob(None, SAMPLE, 1, follower=unseen, is_watched=False)])
    queue.add([PuzzleJob(None, SAMPLE, 2, follower=seen)])
    qtbot.waitUntil(lambda: bool(seen.begun and context.backend.pacing._held))
    assert unseen.ends == [(False, "")]
    assert not seen.begun[0].committed  # its noise is held
    queue.stop()
    idle(qtbot, queue)
    assert fake.seeds == [1, 2]
