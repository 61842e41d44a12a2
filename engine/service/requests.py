"""Requests to a backend, as plain data. Knows neither Qt nor torch."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.config import GenerationConfig
from engine.declared import check_real
from engine.errors import SafelightError
from engine.forks import Fork, Mark
from engine.pictures import Picture
from engine.tasks.decisions.questions import Decision
from engine.text.gap_markers import GapFile, TextGap
from engine.text.message import Message, image_digests
from engine.text.outline import Outline
from engine.text.output_format import OutputFormat
from engine.trace.header import new_id
from engine.trace.recording import Recording

SCHEMES = ("http://", "https://")
MOST_NOISE = 0.95  # of a text that is revised
RunKind = Literal["chat", "completion", "puzzle", "fork", "infill", "decision"]


def is_remote(path_or_id: str) -> bool:
    """True if a model's path or id is the address of one on another machine."""
    return path_or_id.startswith(SCHEMES)


@dataclass(frozen=True)
class LoadRequest:
    """A model to load, with an adapter on it or none; ``cancel`` abandons it."""

    path_or_id: str
    title: str
    threads: int = 0  # CPU threads; 0: chosen by the model
    adapter: str | None = None  # a folder, or an embedded one's id
    cancel: threading.Event = field(default_factory=threading.Event, compare=False)


@dataclass(frozen=True, eq=False)
class RunRequest:
    """One generation; ``cancel`` stops it within one denoising step.

    A chat or a puzzle answers ``messages``, a completion continues ``text``, or ``ids`` where there are any; with a
    ``suffix`` it writes only the gap between ``text`` and that. A fork continues ``source`` with ``changes``; an infill
    regenerates the ``marks`` in the finished text of ``source``. Forks and infills take the prompt and the settings of
    ``source``, and a fork its seed, too: see ``RunRequest.fork`` and ``RunRequest.infill``. A decision reads answers to
    the questions of ``decision`` from one canvas; its messages are made of them. The answer of a chat with an
    ``outline`` is that text with its holes filled; with ``noise`` it is a revision of that text, which has no holes.
    ``pictures`` are those that the messages name, each once.

    Raises:
        SafelightError: ``source`` is a run that cannot be continued, or a message shows a picture that is missing.
    """

    kind: RunKind
    messages: tuple[Message, ...]
    config: GenerationConfig
    seed: int
    think: bool = False  # the model may think before it answers, if its template supports it
    reserve: int = 0  # of a chat: tokens reserved for the answer; the oldest turns are dropped to make room
    keep: bool = True  # store the trace as a file, if the backend stores files
    source: Recording | None = None
    changes: tuple[Fork, ...] = ()  # all changes of ``source``, the newest last; else those of the run itself
    marks: tuple[Mark, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()  # of a chat: functions as JSON schemas, for the chat template
    text: str = ""  # of a completion: the prompt as it is, without a template
    suffix: str | None = None  # of a completion: the text behind the gap; None: the text goes on
    path: str = ""  # of the file that has the gap
    files: tuple[GapFile, ...] = ()  # of a gap: others that the model may read, the least important first
    gap_length: int | None = None  # of a gap, on a canvas: exactly so many tokens; None: not known
    seconds: float | None = None  # of a gap: no step is taken after so many; None: no bound
    ids: tuple[int, ...] = ()  # of a completion: the prompt as tokens, to which none is added; none: made of the text
    prompt_scores: int | None = None  # score the prompt, with so many of the likeliest tokens in each place
    decision: Decision | None = None
    outline: Outline = ()  # of a chat: the answer's text with holes, or the text to revise
    noise: float = 0.0  # of a revision: the share of the text that begins as noise, at most ``MOST_NOISE``
    output_format: OutputFormat | None = None  # of a chat or a completion: the format of the answer
    pictures: tuple[Picture, ...] = ()
    adapter: str | None = None  # for this run, a folder or an embedded one's id; "": none; None: the one attached
    prepared_for: str = ""  # the model, by its path or id, in whose words it is; see ``engine.service.small``
    is_seed_set: bool = True  # False: the seed was drawn, and servers of other kinds choose their own
    run_id: str = field(default_factory=new_id)
    cancel: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        if (self.kind in ("fork", "infill")) != (self.source is not None):
            raise ValueError("a fork and an infill go on from a source; the others have none")
        if (self.kind == "decision") != (self.decision is not None):
            raise ValueError("a decision has its questions; the others have none")
        if self.suffix is not None and (self.kind != "completion" or self.ids):
            raise ValueError("a suffix stands behind the text of a completion; the others have none")
        if self.outline or self.noise:
            _check_outline(self)
        if self.source is not None:
            _check_source(self.source)
        if not set(image_digests(self.messages)) <= {picture.digest for picture in self.pictures}:
            raise SafelightError("a picture of this conversation is missing or damaged; remove it, or add it again")

    @property
    def gap(self) -> TextGap | None:
        """The text with a gap that a completion fills; None if it continues its text."""
        return None if self.suffix is None else TextGap(self.text, self.suffix, self.path, self.files)

    @property
    def is_held(self) -> bool:
        """True if the answer must fit a format, and cannot be any text."""
        return self.output_format is not None and not self.output_format.may_be_text

    @property
    def departure(self) -> Fork:
        """The first change of a fork that its source was not made with; the two share everything before it."""
        made = () if self.source is None else self.source.header.changes
        fresh = [change for place, change in enumerate(self.changes) if made[place : place + 1] != (change,)]
        return fresh[0] if fresh else self.changes[-1]

    @staticmethod
    def fork(source: Recording, changes: tuple[Fork, ...]) -> RunRequest:
        """Returns a request that continues a recorded run with all its changes, the new ones last."""
        return _going_on("fork", source, source.header.seed or 0, changes=changes)

    @staticmethod
    def infill(source: Recording, marks: tuple[Mark, ...], seed: int) -> RunRequest:
        """Returns a request that regenerates spans of a recorded run's finished text, with a new seed."""
        return _going_on("infill", source, seed, marks=marks)


def _going_on(kind: RunKind, source: Recording, seed: int, **more: Any) -> RunRequest:
    header, pictures = source.header, source.pictures
    return RunRequest(
        kind, header.messages, header.config, seed, header.think, source=source, pictures=pictures, **more
    )


def _check_source(source: Recording) -> None:
    """Checks that a run can be continued.

    Raises:
        SafelightError: it cannot.
    """
    if source.header.decision is not None:
        raise SafelightError("a decision has no text to fork or rewrite; ask again instead")
    if source.is_held:
        raise SafelightError("an answer in a format cannot be forked or rewritten; ask again instead")


def _check_outline(request: RunRequest) -> None:
    """Checks that a request can have its outline.

    Raises:
        SafelightError: it has another task as well, or noise that is out of bounds or without a text to revise.
    """
    if request.kind != "chat" or request.output_format is not None or request.tools or request.think:
        raise SafelightError("a text with gaps, or to revise, goes into a chat without a format, tools and thinking")
    check_real("noise", request.noise, 0.0)
    if request.noise > MOST_NOISE:
        raise SafelightError(f"noise must be at most {MOST_NOISE:g}, not {request.noise:g}")
    has_holes = any(not isinstance(part, str) for part in request.outline)
    if has_holes == (request.noise > 0) or not request.outline:
        raise SafelightError("a text to revise has noise and no gaps, a text to fill in has gaps and no noise")


FEWEST_LANES, MOST_LANES = 2, 4  # of a race


@dataclass(frozen=True, eq=False)
class Lane:
    """One answer to a race's prompt: a model, and how its settings differ from its own."""

    model: str  # a folder or an embedded one's id
    title: str  # of the model, in messages
    changes: Mapping[str, Any] = field(default_factory=dict)  # fields of ``GenerationConfig``; ``decoder`` among them
    adapter: str = ""  # a folder or an embedded one's id; empty: none
    run_id: str = field(default_factory=new_id)

    @property
    def key(self) -> tuple[str, str]:
        """The model and its adapter."""
        return self.model, self.adapter


@dataclass(frozen=True, eq=False)
class RaceRequest:
    """One prompt, answered by several lanes at the same time; ``cancel`` stops all of them within one step.

    ``pictures`` are as of a ``RunRequest``.

    Raises:
        ValueError: fewer than two lanes or more than four, or two with one run id.
    """

    messages: tuple[Message, ...]
    lanes: tuple[Lane, ...]
    seed: int
    think: bool = False
    keep: bool = True  # store the traces as files, if the backend stores files
    threads: int = 0  # CPU threads of models loaded for it; 0: chosen by the model
    pictures: tuple[Picture, ...] = ()
    race_id: str = field(default_factory=new_id)
    cancel: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        if not FEWEST_LANES <= len(self.lanes) <= MOST_LANES:
            raise ValueError(f"a race has {FEWEST_LANES} to {MOST_LANES} lanes, not {len(self.lanes)}")
        if len({lane.run_id for lane in self.lanes}) < len(self.lanes):
            raise ValueError("each lane of a race has a run id of its own")


@dataclass(frozen=True, eq=False)
class BoardRequest:
    """A Sudoku in a picture, for the embedded model that sees; ``cancel`` stops the reading within one step."""

    picture: Picture
    threads: int = 0  # CPU threads of that model if it is loaded for it; 0: chosen by the model
    board_id: str = field(default_factory=new_id)
    cancel: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class AdapterRequest:
    """An adapter for the loaded model in place of its present one: a folder, an embedded one's id, or none."""

    path_or_id: str | None


@dataclass(frozen=True, eq=False)
class InfluenceRequest:
    """The influence of one token of a canvas on the others, behind the text of a run's first blocks."""

    trace: Recording
    block: int
    canvas: tuple[int, ...]
    position: int
    token: int
    temperature: float
