"""A backend's replies, as plain data. Messages are in English; a ``Sentence`` can be translated."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated

from engine.catalog import Traits
from engine.config import MAX_CANVAS, MAX_POSITIONS, MAX_THREADS, MAX_VOCABULARY
from engine.declared import LOCAL, many, real, text, whole
from engine.errors import SafelightError, Sentence, spoken
from engine.events import Event, Influence, PromptScores
from engine.pictures import ImageCost
from engine.service.requests import InfluenceRequest, RunRequest
from engine.tasks.sudoku_pictures import ReadBoard, ReadRow
from engine.text.reply import Reply
from engine.trace.header import MAX_NAME, Config, Name
from engine.trace.recording import Recording

MAX_PARAMETERS, MAX_DECODERS = 10**15, 64
Decoders = Annotated[tuple[Annotated[str, text(64, "[a-z0-9_]+")], ...], many(MAX_DECODERS)]


@dataclass(frozen=True)
class Capabilities:
    """The defaults, all off, are those of a backend that only answers with text."""

    steps: bool = False  # runs report their denoising steps
    forks: bool = False  # a recorded run can be continued with changes
    infill: bool = False  # spans of finished text can be regenerated
    gaps: bool = False  # a text can be written between two others
    influence: bool = False  # the influence of one token on the others can be measured
    adapters: bool = False  # can be attached and detached
    decisions: bool = False  # questions can be decided from one read of a canvas
    structured: bool = False  # answers can be held to a format
    images: bool = False  # prompts may contain images
    parallel_runs: Annotated[int, whole(1, 10**6)] = 1  # at the same time; further ones wait


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """The facts about a loaded model; its functions may be called from any thread."""

    path_or_id: str = field(metadata=LOCAL)
    title: Name
    name: Name
    defaults: Config
    canvas_length: Annotated[int, whole(1, MAX_CANVAS)]
    parameter_count: Annotated[int, whole(0, MAX_PARAMETERS)]
    device: Name
    load_seconds: Annotated[float, real(0)]
    vocab_size: Annotated[int, whole(1, MAX_VOCABULARY)]
    piece: Callable[[int], str] = field(metadata=LOCAL)
    is_special: Callable[[int], bool] = field(metadata=LOCAL)
    decode: Callable[[Iterable[int]], Reply] = field(metadata=LOCAL)
    write: Callable[[Iterable[int]], str] = field(metadata=LOCAL)  # returns the text of token ids, with special tokens
    # Of messages, and of tools where it reads them; slow: not for a GUI thread.
    count_tokens: Callable[..., int] = field(metadata=LOCAL)
    encode: Callable[[str], list[int]] = field(metadata=LOCAL)
    # A request's prompt as tokens; slow, like ``count_tokens``.
    prompt_ids: Callable[[RunRequest], list[int]] = field(metadata=LOCAL)
    fingerprint: Name  # of its files
    # The model's positions, for prompt and answer together; 0 where a server does not say.
    context: Annotated[int, whole(1, MAX_POSITIONS)]
    threads: Annotated[int, whole(0, MAX_THREADS)] = 0  # CPU threads that a pass takes; 0 on a GPU
    kernels: Name = ""  # which kernels compute, in words
    device_reason: Name = ""  # why this device, in words
    # Users should read that reason: an experimental device is used, or is not.
    is_news: bool = field(default=False, metadata=LOCAL)
    image_cost: ImageCost | None = field(default=None, metadata=LOCAL)  # None: it cannot see
    adapter: Annotated[str | None, text(MAX_NAME)] = None  # the folder or id of its adapter
    adapter_title: Name = ""
    capabilities: Capabilities = field(default_factory=Capabilities)
    traits: Traits = field(default_factory=Traits)
    decoders: Decoders = ()  # of its runs, its own first; none if a server does not say
    # Fields of ``GenerationConfig`` that its runs follow, and "seed"; None: all.
    settings: frozenset[str] | None = field(default=None, metadata=LOCAL)
    reads_system: bool = True  # its template writes the system prompt
    reads_history: bool = True  # its template writes the messages before the last one
    reads_tools: bool = False  # its template writes the offered tools
    # Among which each request has its own; none: it is one model.
    parts: tuple[LoadedModel, ...] = field(default=(), metadata=LOCAL)

    def part(self, path_or_id: str) -> LoadedModel:
        """Returns a part by its path or id; the model itself if it has no such part."""
        return next((part for part in self.parts if part.path_or_id == path_or_id), self)


@dataclass(frozen=True)
class LoadStarted:
    """Loading began; the previous model is unloaded once the new one's files are checked."""

    title: str


@dataclass(frozen=True)
class LoadProgress:
    """``share`` of the stage is done, 0 to 1."""

    stage: str
    share: float


@dataclass(frozen=True, eq=False)
class ModelLoaded:
    model: LoadedModel


@dataclass(frozen=True)
class ModelUnloaded:
    """The model is unloaded and its memory free."""


@dataclass(frozen=True)
class LoadFailed:
    """The model was not loaded.

    ``kept``: the previous model is still loaded; else none is. ``details``: the traceback of an unexpected failure.
    """

    path_or_id: str
    message: str
    details: str = ""
    kept: bool = False
    model: LoadedModel | None = None  # the one that is kept; set by the scheduler


@dataclass(frozen=True)
class MemoryUsed:
    """Used and total bytes of the model's GPU."""

    used: int
    total: int


@dataclass(frozen=True)
class AdapterChanged:
    """The adapter of the loaded model from now on, or none.

    ``message`` says why the requested one could not be attached; the model then keeps its previous one.
    """

    path_or_id: str | None
    title: str = ""
    message: str = ""
    details: str = ""
    model: LoadedModel | None = None  # with its new adapter; set by the scheduler


@dataclass(frozen=True, eq=False)
class InfluenceMeasured:
    """A request with its result, or with None and the reason."""

    request: InfluenceRequest
    influence: Influence | None
    message: str = ""


@dataclass(frozen=True, eq=False)
class RunStarted:
    """A run began; its events are appended to ``trace``, which may be ahead of the replies."""

    run_id: str
    trace: Recording


@dataclass(frozen=True)
class PromptRead:
    """So many tokens of a run's long prompt are in the cache; before each pass that reads it."""

    run_id: str
    read: int
    total: int


@dataclass(frozen=True, eq=False)
class RunAdvanced:
    """A run's next event."""

    run_id: str
    event: Event


@dataclass(frozen=True, eq=False)
class PromptScored:
    """The scores of a run's prompt, where they were requested; before the run's first event."""

    run_id: str
    scores: PromptScores


@dataclass(frozen=True)
class RunEnded:
    """The last reply of every run, also of one that never began. ``message`` says why it failed, or is empty."""

    run_id: str
    message: str = ""
    details: str = ""


@dataclass(eq=False)
class PassWanted:
    """A pass between the replies of a run, which goes on once it is performed. Only the backend knows its content."""

    what: object
    is_done: bool = False  # set by the backend
    backend: object = None  # that performs it, among the backends of one


@dataclass(frozen=True)
class TraceNotKept:
    """The run continues with its trace in memory only."""

    message: str


@dataclass(frozen=True)
class RaceLoading:
    """A model of a race is being loaded next to the loaded one; ``share`` of it is done, 0 to 1."""

    race_id: str
    title: str
    share: float


@dataclass(frozen=True)
class LanePassed:
    """The number of forwards of a lane's run behind its prompt, those that only commit text included."""

    run_id: str
    forwards: int


@dataclass(frozen=True)
class RaceEnded:
    """The last reply of every race that was begun. ``message`` says why it failed.

    Its runs that had not ended are abandoned then, without a reply of their own.
    """

    race_id: str
    message: str = ""
    details: str = ""


@dataclass(frozen=True)
class BoardAdvanced:
    """The model that reads a board is ready, or has read another row. ``rows`` are those so far."""

    board_id: str
    rows: tuple[ReadRow, ...]


@dataclass(frozen=True)
class BoardEnded:
    """The last reply of every board request; with the board, unless that failed or was cancelled."""

    board_id: str
    board: ReadBoard | None = None
    message: str = ""  # why it failed
    details: str = ""


LoadReply = LoadStarted | LoadProgress | ModelLoaded | LoadFailed | MemoryUsed | AdapterChanged
RunReply = RunStarted | PromptRead | PromptScored | RunAdvanced | RunEnded | MemoryUsed | TraceNotKept
RaceReply = RaceLoading | LanePassed | RaceEnded
BoardReply = BoardAdvanced | BoardEnded
ServiceReply = LoadReply | RunReply | RaceReply | BoardReply | ModelUnloaded | InfluenceMeasured


def explained(error: Exception) -> tuple[str, str]:
    """Returns a message for people, and the traceback of an unexpected error; empty for a ``SafelightError``."""
    if isinstance(error, SafelightError):
        return str(error), ""
    return in_words(error), "".join(traceback.format_exception(error))


def in_words(error: Exception) -> Sentence:
    """Returns one line about an unexpected error, with what to do next."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, not imported here
        return Sentence("Memory ran out. Close other programs, start a new chat, or load the model with fewer bits.")
    return Sentence("Something went wrong: {text}. Try again; the details may say why.", text=spoken(error))
