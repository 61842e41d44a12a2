"""A run on a puzzle and a bin in words, for labels and tool tips. Knows no widgets."""

from __future__ import annotations

from dataclasses import dataclass

from app.state.sudoku.board import bin_name
from app.state.sudoku.solve_frame import SolveFrame
from app.system.i18n import tr, trn
from engine import GenerationFinished, PrefillFinished, Recording, StepFinished
from engine.tasks.sudoku import GIVENS, Bin

SAMPLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
"""Stands there at first sight, so that one click solves something."""

UNKNOWN = "–"


# --- a run ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spent:
    """What a run took."""

    steps: int
    seconds: float  # of prefill and denoising, without the pace at which it was shown
    is_stopped: bool  # by the user

    @staticmethod
    def of(trace: Recording) -> Spent:
        """Of a run as far as it is recorded."""
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
        return Spent(steps, seconds, ended is not None and ended.reason == "cancelled")

    @property
    def words(self) -> str:
        """As "7 steps, 0.12 s"."""
        return tr("{steps}, {seconds} s", steps=steps_text(self.steps), seconds=f"{self.seconds:.2f}")


def steps_text(count: int) -> str:
    return trn("{count} step", "{count} steps", count)


def result_text(frame: SolveFrame | None, spent: Spent, problem: str = "") -> str:
    """How a run went: the solver's verdict, or why there is none; with steps and seconds."""
    if problem:
        return problem
    if spent.is_stopped:
        return tr("Stopped before the end. {spent}.", spent=spent.words)
    if frame is None or frame.verdict is None:
        return tr("The run ended without an answer. {spent}.", spent=spent.words)
    return tr("{verdict} {spent}.", verdict=frame.verdict.text, spent=spent.words)


def figures(frame: SolveFrame | None) -> tuple[str, str, str]:
    """Step, mean entropy and accepted cells of a frame."""
    if frame is None or frame.step < 0:
        return UNKNOWN, UNKNOWN, UNKNOWN
    entropy = UNKNOWN if frame.entropy is None else tr("{entropy} nats", entropy=f"{frame.entropy:.2f}")
    return str(frame.steps), entropy, tr("{accepted} of {cells}", accepted=frame.accepted, cells=len(frame.cells))


# --- a bin ------------------------------------------------------------------------------------------------------------


def bin_title(bin: Bin) -> str:
    """A bin as a button has it."""
    return bin_name(bin).capitalize()


def bin_tip(bin: Bin) -> str:
    """What a bin is."""
    givens = GIVENS[bin]
    return tr("A fresh puzzle with {low} to {high} givens and one solution", low=givens.low, high=givens.high)
