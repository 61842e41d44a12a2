"""Folds a run's events into the figures next to the canvas. Knows neither Qt nor torch. Unknown figures are None.

Padding after an end token does not count once it is known to be padding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from app.state.run.canvas import BlockState, CanvasState
from engine import (
    CanvasCommitted,
    Event,
    GenerationFinished,
    PrefillFinished,
    SafelightError,
    StepFinished,
    TextArrived,
)
from engine.files import parse_json

LARGEST = 2**53  # a float cannot hold every integer above it
COUNTS = ("steps", "blocks", "capped_blocks", "stalled_blocks")
MEASURES = ("seconds", "tokens_per_forward", "tokens_per_second")


@dataclass(frozen=True)
class RunFigures:
    """The figures of a run that are stored with its answer."""

    steps: int = 0  # of all blocks
    blocks: int = 0
    capped_blocks: int = 0  # stopped at the step cap
    seconds: float | None = None  # without prefill
    tokens_per_forward: float | None = None
    tokens_per_second: float | None = None
    stalled_blocks: int = 0  # stopped as they got no surer
    is_cut: bool = False  # the text ends at the limit of new tokens

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> RunFigures:
        """Returns the stored figures; values that cannot be read count as unknown."""
        try:
            raw = parse_json(text, "figures")
        except SafelightError:
            return RunFigures()
        if not isinstance(raw, dict):
            return RunFigures()
        known = {name: raw[name] for name in (*COUNTS, *MEASURES) if _is_figure(raw.get(name))}
        values: dict[str, Any] = {name: known[name] for name in COUNTS if type(known.get(name)) is int}
        values |= {name: float(known[name]) for name in MEASURES if name in known}
        return RunFigures(**values, is_cut=raw.get("is_cut") is True)


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST


@dataclass(eq=False)
class RunStats:
    """Figures of one run. ``max_steps`` comes from the run's settings, as events do not carry it."""

    max_steps: int | None = None
    canvases: CanvasState = field(default_factory=CanvasState)
    prefill_seconds: float | None = None
    total_steps: int = 0  # of all blocks
    step_seconds: float = 0.0  # of all blocks
    capped_blocks: int = 0  # committed at the step cap
    stalled_blocks: int = 0  # committed as they got no surer
    counted_tokens: int = 0  # reported by the backend for text that arrived without token ids

    @staticmethod
    def from_events(events: Iterable[Event], max_steps: int | None = None) -> RunStats:
        """Returns the figures after these events, which start with a run's first event."""
        stats = RunStats(max_steps)
        for event in events:
            stats.fold(event)
        return stats

    def fold(self, event: Event) -> None:
        """Applies the next event of the run."""
        self.canvases.fold(event)
        if isinstance(event, PrefillFinished):
            self.prefill_seconds = event.seconds
        elif isinstance(event, StepFinished):
            self.total_steps += 1
            self.step_seconds += event.seconds
        elif isinstance(event, CanvasCommitted):
            self.capped_blocks += event.reason == "step_cap"
            self.stalled_blocks += event.reason == "stalled"
        elif isinstance(event, TextArrived):
            self.counted_tokens += event.counted

    @property
    def figures(self) -> RunFigures:
        """The figures of the run so far."""
        return RunFigures(
            self.total_steps,
            self.blocks,
            self.capped_blocks,
            self.seconds,
            self.tokens_per_forward,
            self.tokens_per_second,
            stalled_blocks=self.stalled_blocks,
            is_cut=self._finished is not None and self._finished.reason == "length",
        )

    @property
    def prompt_tokens(self) -> int | None:
        return self.canvases.prompt_tokens

    @property
    def step(self) -> int | None:
        """The latest finished step of the current block, counted from 0."""
        block = self._current
        return block.step if block is not None and block.step >= 0 else None

    @property
    def temperature(self) -> float | None:
        return self._current.temperature if self._current is not None else None

    @property
    def mean_entropy(self) -> float | None:
        """Mean entropy in nats a position at the latest step of the current block."""
        return self._current.mean_entropy if self._current is not None else None

    @property
    def accepted_count(self) -> int | None:
        """Positions accepted at the latest step of the current block."""
        return self._current.accepted_count if self.step is not None and self._current is not None else None

    @property
    def canvas_length(self) -> int | None:
        return self._current.length if self._current is not None else None

    @property
    def remelts(self) -> int:
        """Remelts of the whole run."""
        return sum(block.remelt_total for block in self.canvases.blocks)

    @property
    def blocks(self) -> int:
        """The number of canvases started."""
        return len(self.canvases.blocks)

    @property
    def text_tokens(self) -> int | None:
        """Committed tokens before the end token; None before the first commit."""
        if self.counted_tokens:
            return self.counted_tokens
        if self._finished is not None:
            return len(self._finished.tokens)
        lengths = [block.text_length for block in self.canvases.blocks if block.text_length is not None]
        return sum(lengths) if lengths else None

    @property
    def seconds(self) -> float | None:
        """Seconds of the run without its prefill; until it ends, of its denoising steps alone."""
        if self._finished is not None:
            return self._finished.seconds
        return self.step_seconds if self.total_steps else None

    @property
    def tokens_per_forward(self) -> float | None:
        """Committed tokens for each denoising step of committed blocks; at the end, for each step of the run."""
        if self._finished is not None:
            return self._finished.tokens_per_forward if self._finished.steps else None
        steps = sum(block.steps for block in self.canvases.blocks if block.committed)
        return self.text_tokens / steps if self.text_tokens is not None and steps else None

    @property
    def tokens_per_second(self) -> float | None:
        """Committed tokens a second, without prefill."""
        if self._finished is not None:
            seconds = self._finished.seconds
        else:
            seconds = sum(block.seconds for block in self.canvases.blocks if block.committed)
        return self.text_tokens / seconds if self.text_tokens is not None and seconds > 0 else None

    @property
    def _current(self) -> BlockState | None:
        return self.canvases.current

    @property
    def _finished(self) -> GenerationFinished | None:
        return self.canvases.finished
