"""A backend's replies, as plain data. Messages are in English; a ``Sentence`` can be translated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.catalog import Traits
from engine.config import GenerationConfig
from engine.events import Event, Influence, PromptScores
from engine.pictures import ImageCost
from engine.service.capabilities import Capabilities
from engine.service.requests import InfluenceRequest, RunRequest
from engine.tasks.sudoku_pictures import ReadBoard, ReadRow
from engine.text.reply import Reply
from engine.trace.recording import Recording


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """The facts about a loaded model; its functions may be called from any thread."""

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
    write: Callable[[Iterable[int]], str]  # returns the text of token ids, with special tokens
    count_tokens: Callable[..., int]  # of messages, and of tools where it reads them; slow: not for a GUI thread
    encode: Callable[[str], list[int]]
    prompt_ids: Callable[[RunRequest], list[int]]  # a request's prompt as tokens; slow, like ``count_tokens``
    fingerprint: str  # of its files
    context: int  # the model's positions, for prompt and answer together; 0 where a server does not say
    threads: int = 0  # CPU threads that a pass takes; 0 on a GPU
    kernels: str = ""  # which kernels compute, in words
    device_reason: str = ""  # why this device, in words
    is_news: bool = False  # users should read that reason: an experimental device is used, or is not
    image_cost: ImageCost | None = None  # None: it cannot see
    adapter: str | None = None  # the folder or id of its adapter
    adapter_title: str = ""
    capabilities: Capabilities = field(default_factory=Capabilities)
    traits: Traits = field(default_factory=Traits)
    decoders: tuple[str, ...] = ()  # of its runs, its own first; none if a server does not say
    settings: frozenset[str] | None = None  # fields of ``GenerationConfig`` that its runs follow, and "seed"; None: all
    reads_system: bool = True  # its template writes the system prompt
    reads_history: bool = True  # its template writes the messages before the last one
    reads_tools: bool = False  # its template writes the offered tools
    parts: tuple[LoadedModel, ...] = ()  # among which each request has its own; none: it is one model

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
    found: Influence | None
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
