"""Texts about runs and bins of puzzles, for labels and tool tips. Has no widgets."""

from __future__ import annotations

from dataclasses import dataclass

from app.state.sudoku.board import bin_name
from app.state.sudoku.solve_frame import SolveFrame
from app.system.i18n import tr, trn
from engine import GenerationFinished, PrefillFinished, Recording, StepFinished
from engine.tasks.sudoku import GIVENS, Bin

SAMPLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
"""The puzzle shown at first, so that one click solves something."""


@dataclass(frozen=True)
class RunCost:
    """The steps and seconds of a run."""

    steps: int
    seconds: float  # of prefill and denoising, without the pace at which it was shown
    is_stopped: bool  # by the user

    @staticmethod
    def from_trace(trace: Recording) -> RunCost:
        """Returns the cost of a run as far as it is recorded."""
        steps, seconds, ended = 0, 0.0, None
        for event in trace.events:
            match event:
                case PrefillFinished():
                    seconds += event.seconds
                case StepFinished():
                    steps += 1
                    seconds += event.seconds
                case GenerationFinished():
                    ended = event
        return RunCost(steps, seconds, ended is not None and ended.reason == "cancelled")

    @property
    def words(self) -> str:
        """A text like "7 steps, 0.12 s"."""
        return tr(
            "{steps}, {seconds} s",
            steps=trn("{count} step", "{count} steps", self.steps),
            seconds=f"{self.seconds:.2f}",
        )


def result_text(frame: SolveFrame | None, cost: RunCost, problem: str = "") -> str:
    """Returns a run's result: the problem, or else the solver's verdict with steps and seconds."""
    if problem:
        return problem
    if cost.is_stopped:
        return tr("Stopped before the end. {spent}.", spent=cost.words)
    if frame is None or frame.verdict is None:
        return tr("The run ended without an answer. {spent}.", spent=cost.words)
    return tr("{verdict} {spent}.", verdict=frame.verdict.text, spent=cost.words)


def bin_title(bin: Bin) -> str:
    return bin_name(bin).capitalize()


def bin_tip(bin: Bin) -> str:
    givens = GIVENS[bin]
    return tr("A new puzzle with {low} to {high} givens and one solution", low=givens.low, high=givens.high)
