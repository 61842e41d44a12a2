"""Adapters and runs of a puzzle: each request is followed by its own reply, and by no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.context import AppContext, ModelChoice
from app.sudoku.puzzle_runner import PuzzleJob, PuzzleRunner
from app.sudoku.words import SAMPLE
from engine import SUDOKU as MODEL
from engine import Recording
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


def test_replies_to_others_are_left_alone(qtbot: QtBot, open_context: Open, fake: SolverEngine) -> None:
    runner, follower = followed(open_context(MODEL))
    fake.hold = True
    runner.begin(PuzzleJob(SAMPLE, 1))
    qtbot.waitUntil(lambda: follower.grown > 0)
    grown = follower.grown
    for reply in (RunAdvanced("another", follower.begun[0].event(0)), RunEnded("another", "It failed.")):
        runner.take(reply)
    runner.take(AdapterChanged("lora", "", "It does not fit."))
    assert (follower.grown, follower.ends, runner.is_running) == (grown, [], True)
    fake.gate.release(10)
    idle(qtbot, runner)
    assert follower.ends == [""]


def test_an_adapter_is_set_even_if_nobody_waits_for_it(qtbot: QtBot, open_context: Open, fake: SolverEngine) -> None:
    context = open_context(MODEL)
    runner, follower = followed(context)
    runner.begin(PuzzleJob(adapter="lora"))
    assert (runner.is_busy, runner.is_running) == (True, False)
    runner.stop()
    assert not runner.is_busy
    qtbot.waitUntil(lambda: context.choice == ModelChoice(MODEL, "lora"))
    runner.begin(PuzzleJob(SAMPLE, 1))
    idle(qtbot, runner)
    assert (fake.adapters, fake.seeds, follower.ends) == (["lora"], [1], [""])
