"""What the engine's thread tells the window besides the engine's own events. Knows neither Qt nor torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine import Event, Fork, GenerationConfig, Mark, Recording, Reply, Trace

if TYPE_CHECKING:
    from engine import Influence


@dataclass(frozen=True)
class LoadRequest:
    """A model to load; ``cancel`` abandons it."""

    path_or_id: str
    title: str
    threads: int = 0  # of the processor; 0 goes by the model
    cancel: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True)
class RunRequest:
    """An answer to generate; ``cancel`` stops it within one denoising step."""

    messages: tuple[dict[str, str], ...]
    config: GenerationConfig
    seed: int
    think: bool = False  # the model may think before it answers, where its template knows how
    reserve: int = 0  # tokens to hold back for the answer: older turns are left out until it has that room
    cancel: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True, eq=False)
class TrialRequest:
    """A run that belongs to no conversation, as of a puzzle; ``cancel`` stops it within one denoising step."""

    messages: tuple[dict[str, str], ...]
    config: GenerationConfig
    seed: int
    think: bool = False
    keep: bool = True  # its trace as a file, too
    cancel: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True)
class AdapterRequest:
    """An adapter for the loaded model in place of the one that is there: a folder, an embedded one's id, or none."""

    path_or_id: str | None


@dataclass(frozen=True, eq=False)
class ForkRequest:
    """A recorded run to go on from otherwise: by changes, or with spans of its settled text written anew."""

    trace: Recording
    changes: tuple[Fork, ...] = ()  # all that were made on the run's way, the newest last
    marks: tuple[Mark, ...] = ()
    seed: int = 0  # of an infilling
    cancel: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True, eq=False)
class InfluenceRequest:
    """How far one token of a canvas moves the others, behind the text of a run's first blocks."""

    trace: Recording
    block: int
    canvas: tuple[int, ...]
    position: int
    token: int
    temperature: float


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """What the window needs to know of a model that lives in the engine's thread."""

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
    count_tokens: Callable[[Sequence[Mapping[str, str]]], int]  # of a conversation; not to be called in the GUI thread
    encode: Callable[[str], list[int]]
    fingerprint: str  # of its files
    context: int  # tokens of text and answer that the model has positions for
    threads: int = 0  # of the processor that a pass takes; 0 on a GPU
    kernels: str = ""  # which path computes, in words
    adapter: str | None = None  # the folder or id of the adapter that is on it
    adapter_title: str = ""


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
class AdapterChanged:
    """The loaded model has this adapter, or none, from now on.

    ``message`` says why the one that was asked for could not be had; then the model has what it had before.
    """

    path_or_id: str | None
    title: str = ""
    message: str = ""
    details: str = ""


@dataclass(frozen=True)
class MemoryUsed:
    """Bytes taken and there, on the model's GPU."""

    used: int
    total: int


@dataclass(frozen=True)
class LoadFailed:
    """No model is loaded. ``details`` holds the traceback where the failure was not foreseen."""

    path_or_id: str
    message: str
    details: str = ""


@dataclass(frozen=True, eq=False)
class RunStarted:
    """A run began; the worker appends its events to ``trace``."""

    trace: Trace


@dataclass(frozen=True)
class RunFailed:
    """The run ended early; what it had so far stands."""

    message: str
    details: str = ""


@dataclass(frozen=True)
class TraceNotKept:
    """The run goes on, and its trace is in memory only."""

    message: str


@dataclass(frozen=True, eq=False)
class ForkStarted:
    """A fork began; the worker appends its events to ``trace``."""

    trace: Trace


@dataclass(frozen=True)
class ForkGrown:
    """The fork under way has another event."""


@dataclass(frozen=True)
class ForkEnded:
    """The fork is over. ``message`` says why it failed, empty if it did not."""

    message: str = ""
    details: str = ""


@dataclass(frozen=True, eq=False)
class TrialStarted:
    """A trial began; the worker appends its events to ``trace``."""

    trace: Trace


@dataclass(frozen=True)
class TrialGrown:
    """The trial under way has another event. ``is_step``: it is a denoising step, which a pace holds in view."""

    is_step: bool = False


@dataclass(frozen=True)
class TrialEnded:
    """The trial is over. ``message`` says why it failed, empty if it did not."""

    message: str = ""
    details: str = ""


@dataclass(frozen=True, eq=False)
class InfluenceMeasured:
    """What was asked, and what came of it: an ``engine.Influence``, or None and why not."""

    request: InfluenceRequest
    found: Influence | None
    message: str = ""


Message = (
    LoadStarted
    | LoadProgress
    | ModelLoaded
    | ModelUnloaded
    | LoadFailed
    | AdapterChanged
    | MemoryUsed
    | RunStarted
    | RunFailed
    | TraceNotKept
    | ForkStarted
    | ForkGrown
    | ForkEnded
    | TrialStarted
    | TrialGrown
    | TrialEnded
    | InfluenceMeasured
    | Event
)
