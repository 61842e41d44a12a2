"""Loads, adapters and runs of a puzzle: each request is followed by its own reply, and by no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.context import AppContext, ModelChoice
from app.sudoku.puzzle_runner import PuzzleJob, PuzzleRunner
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
    """Notes what a runner tells."""

    def __init__(self, runner: PuzzleRunner) -> None:
        self.begun: list[Recording] = []
        self.grown = 0
        self.ends: list[str] = []  # what went wrong
        runner.began.connect(self.begun.append)
        runner.grew.connect(self._grew)
        runner.ended.connect(self.ends.append)

    def _grew(self, _share: float) -> None:
        self.grown += 1


def followed(context: AppContext) -> tuple[PuzzleRunner, Follower]:
    """A runner that hears what arrives."""
    runner = PuzzleRunner(context)
    context.arrived.connect(lambda replies: [runner.take(reply) for reply in replies])
    return runner, Follower(runner)


def idle(qtbot: QtBot, runner: PuzzleRunner) -> None:
    qtbot.waitUntil(lambda: not runner.is_busy, timeout=RUN_MS)


def test_a_job_loads_puts_on_and_runs_only_what_is_not_there(
    qtbot: QtBot, open_context: Open, fake: SolverEngine
) -> None:
    runner, follower = followed(open_context(SKILLS))
    tuned = ModelChoice(MODEL, "lora")
    for seed in (1, 2):
        runner.begin(PuzzleJob(tuned, SAMPLE, seed))
        assert runner.is_busy
        assert runner.is_running == (seed == 2)
        idle(qtbot, runner)
    assert fake.loads == [SKILLS, MODEL]
    assert fake.adapters == ["lora"]
    assert fake.seeds == [1, 2]
    assert follower.ends == ["", ""]
    assert follower.grown == sum(len(view.entries) for view in follower.begun)


def test_replies_to_others_are_left_alone(qtbot: QtBot, open_context: Open, fake: SolverEngine) -> None:
    runner, follower = followed(open_context(MODEL))
    fake.hold = True
    runner.begin(PuzzleJob(None, SAMPLE, 1))
    qtbot.waitUntil(lambda: follower.grown > 0)
    grown = follower.grown
    for reply in (RunAdvanced("another", follower.begun[0].event(0)), RunEnded("another", "It failed.")):
        runner.take(reply)
    runner.take(AdapterChanged("lora", "", "It does not fit."))
    assert (follower.grown, follower.ends, runner.is_running) == (grown, [], True)
    fake.gate.release(10)
    idle(qtbot, runner)
    assert follower.ends == [""]


@pytest.mark.parametrize("other", [SKILLS, "missing"])
def test_another_model_that_is_chosen_while_one_is_loaded_ends_the_job(
    qtbot: QtBot, open_context: Open, fake: SolverEngine, other: str
) -> None:
    context = open_context(None)
    runner, follower = followed(context)
    runner.begin(PuzzleJob(ModelChoice(MODEL), SAMPLE, 1))
    context.load(other)
    assert not runner.is_busy
    assert follower.ends == [""]
    qtbot.waitUntil(lambda: context.loading is None)
    assert fake.prompts == []


def test_a_model_that_cannot_be_had_ends_the_job(qtbot: QtBot, open_context: Open) -> None:
    runner, follower = followed(open_context(MODEL))
    runner.begin(PuzzleJob(ModelChoice("missing"), SAMPLE, 1))
    idle(qtbot, runner)
    assert follower.ends == [""]


def test_stopping_while_the_model_is_made_ready_runs_nothing(
    qtbot: QtBot, open_context: Open, fake: SolverEngine
) -> None:
    context = open_context(MODEL)
    runner, follower = followed(context)
    runner.begin(PuzzleJob(ModelChoice(MODEL, "lora"), SAMPLE, 1))
    runner.stop()
    idle(qtbot, runner)
    assert context.model is not None
    assert context.model.adapter == "lora"
    runner.begin(PuzzleJob(ModelChoice(SKILLS), SAMPLE, 1))
    runner.stop()
    assert not runner.is_busy
    assert follower.ends == ["", ""]
    qtbot.waitUntil(lambda: context.model is not None)  # the model is loaded nevertheless
    assert fake.prompts == []
