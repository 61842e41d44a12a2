"""The interface of a run's record, in memory or in a file. Knows no file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np

from engine.config import GenerationConfig
from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    Kind,
    PrefixPinned,
    SlotsRead,
    StepFinished,
    TextArrived,
)
from engine.pictures import Picture
from engine.text.reply import Reply
from engine.trace.header import TraceHeader
from engine.types import Tokens


class Entry(NamedTuple):
    """The kind and place of an event, without its payload. ``block`` and ``step`` are -1 if it has none."""

    kind: Kind
    block: int = -1
    step: int = -1


def entry_of(event: Event) -> Entry:
    return Entry(event.record.kind, getattr(event, "block_index", -1), getattr(event, "step", -1))


class Recording(ABC):
    """A run: its request, its events, and the texts of its tokens. A growing one only grows at its end."""

    path: Path | None = None
    """The file it is kept in, or is being written to; None if it is only in memory."""

    @property
    @abstractmethod
    def header(self) -> TraceHeader:
        """The facts fixed before the first event."""

    @property
    @abstractmethod
    def entries(self) -> Sequence[Entry]:
        """The kinds and places of all events, in order; reads no file."""

    @property
    def is_held(self) -> bool:
        """True if a format decided what was written, so that the run cannot be repeated with a change."""
        held_to = self.header.output_format
        return held_to is not None and (not held_to.may_be_text or any(entry.kind == "pins" for entry in self.entries))

    @abstractmethod
    def event(self, index: int) -> Event:
        """Returns the event of ``entries[index]``; negative ones count from the end.

        Raises:
            IndexError: there is none.
            TraceError: it cannot be read.
        """

    @abstractmethod
    def piece(self, token: int) -> str:
        """Returns the text of a token of this run; ``<id>`` if it is unknown."""

    @abstractmethod
    def is_special(self, token: int) -> bool:
        """Returns True if a token is a control token."""

    def spelled(self, tokens: Iterable[int]) -> Reply:
        """Returns the text of some tokens, one by one, without a tokenizer."""
        return Reply("".join(self.piece(token) for token in tokens if not self.is_special(token)))

    @abstractmethod
    def reply(self, block: int | None = None) -> Reply:
        """Returns the answer as it read once ``block`` was committed; None: at the end, with the draft of a block cut
        short.

        Raises:
            IndexError: the block was not committed.
            TraceError: it cannot be read.
        """

    @property
    @abstractmethod
    def pictures(self) -> tuple[Picture, ...]:
        """The readable ones of the pictures in the messages, each once."""

    @property
    @abstractmethod
    def notice(self) -> str:
        """Why the record ends before the run did, in sentences; empty if it does not."""

    @property
    @abstractmethod
    def failure(self) -> str:
        """The reason why the run ended early, in a sentence; empty if it did not."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Writes the whole record to a file, completely or not at all.

        Raises:
            SafelightError: it cannot be written.
        """

    @property
    def events(self) -> Sequence[Event]:
        """The events in order, read on request."""
        return Events(self)

    @property
    def text(self) -> str:
        """The answer at the end."""
        return self.reply().text

    @property
    def model_name(self) -> str:
        return self.header.model.name

    @property
    def prompt(self) -> str:
        return self.header.prompt

    @property
    def config(self) -> GenerationConfig:
        return self.header.config

    @property
    def seed(self) -> int | None:
        return self.header.seed

    @property
    def steps(self) -> list[StepFinished]:
        """All denoising steps, in order."""
        return [event for event in self._all("step") if isinstance(event, StepFinished)]

    @property
    def committed(self) -> list[CanvasCommitted]:
        """The finished blocks, in order."""
        return [event for event in self._all("commit") if isinstance(event, CanvasCommitted)]

    @property
    def result(self) -> GenerationFinished | None:
        """The end of the run; None while it is running or if it failed."""
        if not self.entries or self.entries[-1].kind != "end":
            return None
        last = self.event(-1)
        return last if isinstance(last, GenerationFinished) else None

    def _all(self, kind: Kind) -> Iterator[Event]:
        return (self.event(index) for index, entry in enumerate(self.entries) if entry.kind == kind)


class Events(Sequence[Event]):
    """The events of a recording, each read on request."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __len__(self) -> int:
        return len(self._recording.entries)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        if isinstance(index, slice):
            return [self._recording.event(place) for place in range(*index.indices(len(self)))]
        return self._recording.event(index)


class Draft:
    """The committed blocks, and the best guess for the block that is running; ``ends`` are the tokens that end a text.

    For a run without steps it is the text that has arrived. For a decision it is the labels of its last read, as they
    stand on the canvas, and at the end those of all reads.
    """

    def __init__(self, ends: Collection[int]) -> None:
        self._ends = ends
        self.committed: list[int] = []
        self._argmax: Tokens | None = None
        self._filler: int | None = None  # of the running block; positions that hold it have no guess
        self._is_read = False  # the current canvas is a decision's
        self._texts: dict[bool, list[str]] = {False: [], True: []}  # True: thinking; False: answer

    @staticmethod
    def from_events(events: Iterable[Event], ends: Collection[int] = ()) -> Draft:
        """Returns the draft after these events, from the run's beginning."""
        draft = Draft(ends)
        for event in events:
            draft.fold(event)
        return draft

    def fold(self, event: Event) -> None:
        if isinstance(event, CanvasStarted):
            self._filler = event.filler
        elif isinstance(event, StepFinished):
            argmax = event.argmax_canvas
            self._argmax = argmax if self._filler is None else argmax[argmax != self._filler]
        elif isinstance(event, PrefixPinned):
            behind = () if self._argmax is None else self._argmax[event.pinned :]
            self._argmax = np.concatenate([event.canvas[: event.pinned], np.asarray(behind, dtype=np.int32)])
        elif isinstance(event, SlotsRead):
            self._is_read = True
        elif isinstance(event, CanvasCommitted):
            if self._is_read:
                self.committed = []
            self.committed += event.tokens[: event.text_length].tolist()
            self._argmax = None
        elif isinstance(event, TextArrived):
            self._texts[event.is_thought].append(event.text)
        elif isinstance(event, GenerationFinished):
            self.committed = event.tokens.tolist()  # a fork may have left out blocks

    def tokens(self) -> list[int]:
        """Returns all tokens, up to the first end token of the running block."""
        tokens = list(self.committed)
        if self._argmax is not None:
            ends = np.flatnonzero(np.isin(self._argmax, list(self._ends)))
            tokens += self._argmax[: ends[0] if len(ends) else None].tolist()
        return tokens

    @property
    def is_text(self) -> bool:
        """True if it arrived as text, without tokens."""
        return any(self._texts.values())

    def reply(self, decode: Callable[[Iterable[int]], Reply]) -> Reply:
        """Returns the whole answer as it reads; ``decode`` reads tokens."""
        return self.arrived if self.is_text else decode(self.tokens())

    @property
    def arrived(self) -> Reply:
        return Reply("".join(self._texts[False]), "".join(self._texts[True]).strip())
