"""An append-only record of a run in memory: everything the run said, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.config import GenerationConfig
from engine.events import CanvasCommitted, Event, GenerationFinished, StepFinished, Tokens


@dataclass
class Trace:
    """What was asked and what happened. Drawing may skip steps; the trace never does."""

    model_name: str
    prompt: str
    config: GenerationConfig
    seed: int
    events: list[Event] = field(default_factory=list)

    def append(self, event: Event) -> None:
        self.events.append(event)

    @property
    def steps(self) -> list[StepFinished]:
        """All denoising steps, in order."""
        return [event for event in self.events if isinstance(event, StepFinished)]

    @property
    def committed(self) -> list[CanvasCommitted]:
        """The finished blocks, in order."""
        return [event for event in self.events if isinstance(event, CanvasCommitted)]

    @property
    def result(self) -> GenerationFinished | None:
        """How the run ended; None while it is under way or if it failed."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, GenerationFinished) else None

    def final_tokens(self) -> Tokens | None:
        """Committed tokens before the end token, (N,)."""
        return self.result.tokens if self.result is not None else None
