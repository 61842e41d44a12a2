"""The names of messages from before runs had ids, for the pages that still go by them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from engine import Fork, GenerationConfig, Mark, Recording, StepFinished, Trace
from engine.service import (
    AdapterChanged,
    InfluenceMeasured,
    InfluenceRequest,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadStarted,
    MemoryUsed,
    ModelLoaded,
    ModelUnloaded,
    RunAdvanced,
    RunEnded,
    RunReply,
    RunRequest,
    RunStarted,
    ServiceReply,
    TraceNotKept,
)

__all__ = [
    "AdapterChanged",
    "InfluenceMeasured",
    "InfluenceRequest",
    "LoadFailed",
    "LoadProgress",
    "LoadStarted",
    "LoadedModel",
    "MemoryUsed",
    "ModelLoaded",
    "ModelUnloaded",
    "TraceNotKept",
]


@dataclass(frozen=True, eq=False)
class TrialRequest:
    messages: tuple[dict[str, str], ...]
    config: GenerationConfig
    seed: int
    think: bool = False
    keep: bool = True
    cancel: threading.Event = field(default_factory=threading.Event, compare=False)

    def as_run(self) -> RunRequest:
        return RunRequest(
            "puzzle", self.messages, self.config, self.seed, self.think, keep=self.keep, cancel=self.cancel
        )


@dataclass(frozen=True, eq=False)
class ForkRequest:
    trace: Recording
    changes: tuple[Fork, ...] = ()
    marks: tuple[Mark, ...] = ()
    seed: int = 0

    def as_run(self) -> RunRequest:
        if self.marks:
            return RunRequest.infill(self.trace, self.marks, self.seed)
        return RunRequest.fork(self.trace, self.changes)


@dataclass(frozen=True, eq=False)
class ForkStarted:
    trace: Trace


@dataclass(frozen=True)
class ForkGrown:
    pass


@dataclass(frozen=True)
class ForkEnded:
    message: str = ""
    details: str = ""


@dataclass(frozen=True, eq=False)
class TrialStarted:
    trace: Trace


@dataclass(frozen=True)
class TrialGrown:
    is_step: bool = False


@dataclass(frozen=True)
class TrialEnded:
    message: str = ""
    details: str = ""


OldMessage = ForkStarted | ForkGrown | ForkEnded | TrialStarted | TrialGrown | TrialEnded
Message = ServiceReply | OldMessage


def in_old_words(request: RunRequest, reply: RunReply) -> Message:
    """What a reply to a fork or a puzzle was called."""
    is_puzzle = request.kind == "puzzle"
    match reply:
        case RunStarted(_, trace):
            return TrialStarted(trace) if is_puzzle else ForkStarted(trace)
        case RunAdvanced(_, event):
            return TrialGrown(isinstance(event, StepFinished)) if is_puzzle else ForkGrown()
        case RunEnded(_, message, details):
            return TrialEnded(message, details) if is_puzzle else ForkEnded(message, details)
    return reply
