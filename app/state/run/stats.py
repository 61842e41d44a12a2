"""Folds a run's events into the figures next to the canvas, and words them. Knows neither Qt nor torch. Unknown figures
are None."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated

from app.state.run.canvas import BlockState, CanvasState
from app.system.i18n import tr
from engine import (
    CanvasCommitted,
    Event,
    SafelightError,
    StepFinished,
    TextArrived,
)
from engine.declared import read, real, whole
from engine.files import parse_json

LARGEST = 2**53  # a float cannot hold every integer above it
Count = Annotated[int, whole(0, LARGEST)]
Measure = Annotated[float | None, real(0, LARGEST)]


@dataclass(frozen=True)
class RunFigures:
    """The figures of a run that are stored with its answer."""

    steps: Count = 0  # of all blocks
    blocks: Count = 0
    capped_blocks: Count = 0  # stopped at the step cap
    seconds: Measure = None  # without prefill
    tokens_per_forward: Measure = None
    tokens_per_second: Measure = None
    stalled_blocks: Count = 0  # stopped as they got no surer
    is_cut: bool = False  # the text ends at the limit of new tokens

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> RunFigures:
        """Returns the stored figures; those that cannot be read count as unknown."""
        try:
            return read(RunFigures, parse_json(text, "figures"), "figures")
        except SafelightError:
            return RunFigures()


@dataclass(eq=False)
class RunStats:
    """Figures of one run."""

    canvases: CanvasState = field(default_factory=CanvasState)
    total_steps: int = 0  # of all blocks
    step_seconds: float = 0.0  # of all blocks
    capped_blocks: int = 0  # committed at the step cap
    stalled_blocks: int = 0  # committed as they got no surer
    counted_tokens: int = 0  # reported by the backend for text that arrived without token ids

    def fold(self, event: Event) -> None:
        self.canvases.fold(event)
        self.count(event)

    def count(self, event: Event) -> None:
        """Counts an event that is folded into the canvases."""
        if isinstance(event, StepFinished):
            self.total_steps += 1
            self.step_seconds += event.seconds
        elif isinstance(event, CanvasCommitted):
            self.capped_blocks += event.reason == "step_cap"
            self.stalled_blocks += event.reason == "stalled"
        elif isinstance(event, TextArrived):
            self.counted_tokens += event.counted

    @property
    def figures(self) -> RunFigures:
        """The figures of the run so far; those per token once it has ended."""
        ended = self.canvases.finished
        figures = RunFigures(
            self.total_steps,
            len(self.canvases.blocks),
            self.capped_blocks,
            self.step_seconds if self.total_steps else None,
            stalled_blocks=self.stalled_blocks,
        )
        if ended is None:
            return figures
        tokens = self.counted_tokens or len(ended.tokens)
        return replace(
            figures,
            seconds=ended.seconds,
            tokens_per_forward=ended.tokens_per_forward if ended.steps else None,
            tokens_per_second=tokens / ended.seconds if ended.seconds > 0 else None,
            is_cut=ended.reason == "length",
        )


def block_end_words(block: BlockState) -> str:
    """Describes the end of a block that stalled; empty if it converged, or ran out of steps."""
    return tr("stalled at step {step}, taken as it is", step=block.steps) if block.reason == "stalled" else ""


def seconds_text(seconds: float) -> str:
    """Returns a duration with its unit."""
    if seconds < 0.1:
        return tr("{count} ms", count=f"{1000 * seconds:.0f}")
    return tr("{count} s", count=f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.0f}")


def rate_text(rate: float) -> str:
    """Returns tokens per forward or per second, without a unit."""
    return f"{rate:,.1f}" if rate >= 0.1 else f"{rate:.2f}"
