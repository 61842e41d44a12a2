"""What a backend has to say, as plain data. Messages are in English; a ``Sentence`` can be translated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.catalog import Traits
from engine.config import GenerationConfig
from engine.events import Event
from engine.service.capabilities import Capabilities
from engine.service.requests import InfluenceRequest
from engine.text.message import Message
from engine.text.reply import Reply
from engine.trace.live import Trace

if TYPE_CHECKING:
    from engine.decoding.influence import Influence


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """What can be known of a model from outside; its functions may be called in any thread."""

    path_or_id: str
    title: str
    name: str
    defaults: GenerationConfig
    canvas_length: int
    parameter_count: int
    device: str
    load_seconds: float
    vocab_size: int
    piece: Callable[[int], str]
    is_special: Callable[[int], bool]
    decode: Callable[[Iterable[int]], Reply]
    count_tokens: Callable[[Sequence[Message]], int]  # of a conversation; takes its time: not for a GUI thread
    encode: Callable[[str], list[int]]
    fingerprint: str  # of its files
    context: int  # tokens of text and answer that the model has positions for
    threads: int = 0  # of the processor that a pass takes; 0 on a GPU
    kernels: str = ""  # which path computes, in words
    device_reason: str = ""  # why this device, in words
    adapter: str | None = None  # the folder or id of the adapter that is on it
    adapter_title: str = ""
    capabilities: Capabilities = field(default_factory=Capabilities)
    traits: Traits = field(default_factory=Traits)


@dataclass(frozen=True)
class LoadStarted:
    """Loading began; the model that was there before is gone."""

    title: str


@dataclass(frozen=True)
class LoadProgress:
    """``share`` of the stage is done, 0 to 1."""

    stage: str
    share: float


@dataclass(frozen=True, eq=False)
class ModelLoaded:
    """The model is ready."""

    model: LoadedModel


@dataclass(frozen=True)
class ModelUnloaded:
    """No model is loaded any more, and its memory is free."""


@dataclass(frozen=True)
class LoadFailed:
    """No model is loaded. ``details`` holds the traceback where the failure was not foreseen."""

    path_or_id: str
    message: str
    details: str = ""


@dataclass(frozen=True)
class MemoryUsed:
    """Bytes taken and there, on the model's GPU."""

    used: int
    total: int


@dataclass(frozen=True)
class AdapterChanged:
    """The loaded model has this adapter, or none, from now on.

    ``message`` says why the one that was asked for could not be had; then the model has what it had before.
    """

    path_or_id: str | None
    title: str = ""
    message: str = ""
    details: str = ""


@dataclass(frozen=True, eq=False)
class InfluenceMeasured:
    """What was asked, and what came of it: what was found, or None and why not."""

    request: InfluenceRequest
    found: Influence | None
    message: str = ""


@dataclass(frozen=True, eq=False)
class RunStarted:
    """A run began; its events are appended to ``trace``, which may be ahead of what has been replied."""

    run_id: str
    trace: Trace


@dataclass(frozen=True, eq=False)
class RunAdvanced:
    """A run's next event."""

    run_id: str
    event: Event


@dataclass(frozen=True)
class RunEnded:
    """The last word of every run, also of one that never began. ``message`` says why it failed, empty if it did not."""

    run_id: str
    message: str = ""
    details: str = ""


@dataclass(frozen=True)
class TraceNotKept:
    """The run goes on, and its trace is in memory only."""

    message: str


LoadReply = LoadStarted | LoadProgress | ModelLoaded | LoadFailed | MemoryUsed
RunReply = RunStarted | RunAdvanced | RunEnded | MemoryUsed | TraceNotKept
ServiceReply = LoadReply | RunReply | ModelUnloaded | AdapterChanged | InfluenceMeasured
