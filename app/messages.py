"""What the engine's thread tells the window besides the engine's own events. Knows neither Qt nor torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from engine import Event, GenerationConfig, Reply, Trace


@dataclass(frozen=True)
class LoadRequest:
    """A model to load; ``cancel`` abandons it."""

    path_or_id: str
    title: str
    cancel: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True)
class RunRequest:
    """An answer to generate; ``cancel`` stops it within one denoising step."""

    messages: tuple[dict[str, str], ...]
    config: GenerationConfig
    seed: int
    think: bool = False  # the model may think before it answers, where its template knows how
    cancel: threading.Event = field(default_factory=threading.Event, compare=False)


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
    count_tokens: Callable[[Sequence[dict[str, str]]], int]  # of a conversation, as the model's template writes it
    context: int  # tokens of text and answer that the model has positions for
    kernels: str = ""  # which path computes, in words


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


Message = (
    LoadStarted | LoadProgress | ModelLoaded | ModelUnloaded | LoadFailed | MemoryUsed | RunStarted | RunFailed | Event
)
