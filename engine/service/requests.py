"""Requests to a backend, as plain data. Knows neither Qt nor torch."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any

from engine.config import LARGEST_SEED, MAX_POSITIONS
from engine.declared import LOCAL, Form, check_fields, many, plain, real, text, whole
from engine.errors import SafelightError
from engine.forks import Fork, Mark
from engine.pictures import Picture
from engine.tasks.decisions.forms import decision_from_json, decision_to_json
from engine.tasks.decisions.questions import Decision
from engine.text.gap_markers import TextGap
from engine.text.message import Message, image_digests
from engine.text.outline import Outline, read_outline
from engine.text.output_format import OutputFormat
from engine.trace.header import MAX_NAME, Config, Messages, new_id
from engine.trace.recording import Recording

SCHEMES = ("http://", "https://")
MAX_NOISE = 0.95  # of a text that is revised
MAX_TOOLS = 256


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
    """One generation; ``cancel`` stops it within one denoising step. Each kind is a class of its own."""

    config: Config
    seed: Annotated[int, whole(0, LARGEST_SEED)]
    _: KW_ONLY
    adapter: Annotated[str | None, text(MAX_NAME)] = None  # a folder or an embedded one's id; "": none; None: attached
    pictures: tuple[Picture, ...] = field(default=(), metadata=LOCAL)  # those that its messages name, each once
    keep: bool = field(default=True, metadata=LOCAL)  # store the trace as a file, if the backend stores files
    # The model, by its path or id, in whose words it is; see ``engine.service.small``.
    prepared_for: str = field(default="", metadata=LOCAL)
    # False: the seed was drawn, and servers of other kinds choose their own.
    is_seed_set: bool = field(default=True, metadata=LOCAL)
    run_id: str = field(default_factory=new_id, metadata=LOCAL)
    cancel: threading.Event = field(default_factory=threading.Event, metadata=LOCAL)


@dataclass(frozen=True, eq=False)
class FormattedRun(RunRequest):
    """A run whose answer may have to fit a format."""

    output_format: OutputFormat | None = field(default=None, kw_only=True)

    @property
    def is_held(self) -> bool:
        """True if the answer must fit a format, and cannot be any text."""
        return self.output_format is not None and not self.output_format.may_be_text


@dataclass(frozen=True, eq=False)
class ChatRun(FormattedRun):
    """The answer to a conversation. With an ``outline`` it is that text with its holes filled, or its revision.

    Raises:
        SafelightError: a picture is missing, or the outline does not go with the rest.
    """

    messages: Messages
    think: bool = False  # the model may think before it answers, if its template supports it
    _: KW_ONLY
    reserve: Annotated[int, whole(0, MAX_POSITIONS)] = 0  # tokens of the answer; the oldest turns make room for them
    tools: Annotated[tuple[Mapping[str, Any], ...], many(MAX_TOOLS)] = ()  # functions as JSON schemas
    outline: Annotated[Outline, Form(read_outline, plain)] = ()  # the answer's text with holes, or the text to revise
    noise: Annotated[float, real(0.0, MAX_NOISE)] = 0.0  # of a revision: the share of the text that begins as noise

    def __post_init__(self) -> None:
        _check_pictures(self.messages, self.pictures)
        if not (self.outline or self.noise):
            return
        if type(self) is PuzzleRun or self.output_format is not None or self.tools or self.think:
            raise SafelightError(
                "a text with gaps, or to revise, goes into a chat without a format, tools and thinking"
            )
        check_fields(self)
        has_holes = any(not isinstance(part, str) for part in self.outline)
        if has_holes == (self.noise > 0) or not self.outline:
            raise SafelightError("a text to revise has noise and no gaps, a text to fill in has gaps and no noise")


class PuzzleRun(ChatRun):
    """A chat whose message is a Sudoku, for the model that solves them, in its own words."""


@dataclass(frozen=True, eq=False)
class CompletionRun(FormattedRun):
    """A text that goes on, as it is, without a template."""

    text: str = ""
    ids: tuple[int, ...] = ()  # the prompt as tokens, to which none is added; none: made of the text
    prompt_scores: int | None = None  # score the prompt, with so many of the likeliest tokens in each place


@dataclass(frozen=True, eq=False)
class GapRun(RunRequest):
    """The text in a gap between two others."""

    gap: TextGap
    length: int | None = None  # on a canvas: exactly so many tokens; None: not known
    seconds: float | None = None  # no step is taken after so many; None: no bound


@dataclass(frozen=True, eq=False)
class DecisionRun(RunRequest):
    """The answers to questions, read from one canvas."""

    decision: Annotated[Decision, Form(decision_from_json, decision_to_json)]


@dataclass(frozen=True, eq=False)
class ContinuedRun(RunRequest):
    """A run that goes on from a recorded one, with its prompt and settings.

    Raises:
        SafelightError: ``source`` is a run that cannot be continued, or a message shows a picture that is missing.
    """

    source: Recording
    changes: tuple[Fork, ...] = ()  # all that were made, the newest last
    marks: tuple[Mark, ...] = ()  # spans of its text that are written again

    def __post_init__(self) -> None:
        if self.source.header.decision is not None:
            raise SafelightError("a decision has no text to fork or rewrite; ask again instead")
        if self.source.is_held:
            raise SafelightError("an answer in a format cannot be forked or rewritten; ask again instead")
        _check_pictures(self.source.header.messages, self.pictures)

    @property
    def place(self) -> tuple[int, int]:
        """The block and the step before which all is as in the source."""
        return min(mark.block for mark in self.marks), 0


class ForkRun(ContinuedRun):
    """A recorded run with changes."""

    @staticmethod
    def of(source: Recording, changes: tuple[Fork, ...]) -> ForkRun:
        """Returns a run with the source's seed."""
        header = source.header
        return ForkRun(header.config, header.seed or 0, source, changes, pictures=source.pictures)

    @property
    def place(self) -> tuple[int, int]:
        """That of the first change that the source was not made with."""
        source_changes = self.source.header.changes
        fresh = [change for place, change in enumerate(self.changes) if source_changes[place : place + 1] != (change,)]
        return (fresh[0] if fresh else self.changes[-1]).place


class InfillRun(ContinuedRun):
    """A recorded run's finished text, of which parts are written again."""

    @staticmethod
    def of(source: Recording, marks: tuple[Mark, ...], seed: int) -> InfillRun:
        return InfillRun(source.header.config, seed, source, marks=marks, pictures=source.pictures)


def _check_pictures(messages: Iterable[Message], pictures: Iterable[Picture]) -> None:
    if not set(image_digests(messages)) <= {picture.digest for picture in pictures}:
        raise SafelightError("a picture of this conversation is missing or damaged; remove it, or add it again")


FEWEST_LANES, MAX_LANES = 2, 4  # of a race


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
        if not FEWEST_LANES <= len(self.lanes) <= MAX_LANES:
            raise ValueError(f"a race has {FEWEST_LANES} to {MAX_LANES} lanes, not {len(self.lanes)}")
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
