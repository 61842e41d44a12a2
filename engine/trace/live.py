"""An append-only record of a run in memory: all of its events, in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from engine.config import GenerationConfig
from engine.events import CanvasCommitted, CanvasStarted, Event
from engine.files import replacing
from engine.pictures import Picture
from engine.text.reply import Reply
from engine.trace.header import ModelIdentity, TraceHeader
from engine.trace.recording import Draft, Entry, Recording, entry_of
from engine.trace.writer import TraceWriter

Piece = Callable[[int], str]
IsSpecial = Callable[[int], bool]
Decode = Callable[[Iterable[int]], Reply]


def by_number(token: int) -> str:
    return f"<{token}>"


def is_never_special(_token: int) -> bool:
    return False


class Trace(Recording):
    """A run's header and events. Drawing may skip steps; the trace never does.

    Args:
        header: the facts known before the run.
        piece, is_special, decode: the model's tokenizer; without it tokens are written as numbers.
        pictures: those that the header's messages show, each once.
    """

    def __init__(
        self,
        model_name: str = "",
        prompt: str = "",
        config: GenerationConfig | None = None,
        seed: int = 0,
        *,
        header: TraceHeader | None = None,
        piece: Piece = by_number,
        is_special: IsSpecial = is_never_special,
        decode: Decode | None = None,
        pictures: tuple[Picture, ...] = (),
    ) -> None:
        self._header = header or TraceHeader(ModelIdentity(model_name), prompt, config or GenerationConfig(), seed)
        self._piece, self._is_special, self._decode = piece, is_special, decode
        self._pictures = pictures
        self._entries: list[Entry] = []
        self._events: list[Event] = []
        self._failure = ""

    def append(self, event: Event) -> None:
        self._events.append(event)
        self._entries.append(entry_of(event))  # last: readers in other threads rely on the entries

    def fail(self, why: str) -> None:
        """Records that the run ended early; its events so far stay."""
        self._failure = why

    @property
    def header(self) -> TraceHeader:
        return self._header

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return self._pictures

    @property
    def entries(self) -> Sequence[Entry]:
        return self._entries

    @property
    def events(self) -> list[Event]:
        """All events so far; must not be modified."""
        return self._events

    def event(self, index: int) -> Event:
        return self._events[index]

    def piece(self, token: int) -> str:
        return self._piece(int(token))

    def is_special(self, token: int) -> bool:
        return self._is_special(int(token))

    def reply(self, block: int | None = None) -> Reply:
        draft = Draft(self.config.eos_token_ids)
        for event in self._events:
            draft.fold(event)
            if block is not None and isinstance(event, CanvasCommitted) and event.block_index == block:
                return draft.reply(self._read)
        if block is not None:
            raise IndexError(f"block {block} was not committed")
        return draft.reply(self._read)

    @property
    def notice(self) -> str:
        return self._failure

    @property
    def failure(self) -> str:
        return self._failure

    def save(self, path: Path) -> None:
        header = self._header
        if not header.canvas_length:  # not given; taken from the first canvas
            length = next((len(event.canvas) for event in self._events if isinstance(event, CanvasStarted)), 0)
            header = dataclasses.replace(header, model=dataclasses.replace(header.model, canvas_length=length))
        texts = (self._piece, self._is_special, self._read)
        with replacing(path) as part, TraceWriter(part, header, *texts, self._pictures, is_made=True) as file:
            for event in list(self._events):
                file.append(event)
            file.close(self._failure)

    def _read(self, tokens: Iterable[int]) -> Reply:
        if self._decode is not None:
            return self._decode(tokens)
        return Reply("".join(self._piece(token) for token in tokens if not self._is_special(token)))
