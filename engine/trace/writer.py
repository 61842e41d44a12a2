"""Records a run: in memory, and in a file as it goes on.

A file's event is passed to the operating system before the next is computed. The file grows in place and is not synced
to disk: it must be readable up to any byte where it ends, and a disk sync at each step would slow the run. A crash of
the program loses nothing, one of the machine the last seconds.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from engine.config import GenerationConfig
from engine.events import CanvasCommitted, CanvasStarted, Event, GenerationFinished
from engine.files import replacing
from engine.pictures import Picture
from engine.text.reply import Reply
from engine.trace.codec import Codec
from engine.trace.format import MAX_HEADER, MAX_PICTURED, PayloadError, RecordBudget, TraceError, frame, opening
from engine.trace.header import ModelIdentity, TraceHeader
from engine.trace.recording import Draft, Entry, Recording, entry_of
from engine.trace.texts import EMPTY, NewTokens, encode_pieces, encode_reply

Piece = Callable[[int], str]
IsSpecial = Callable[[int], bool]
Decode = Callable[[Iterable[int]], Reply]

MAX_FAILURE = 10_000  # characters of why a run failed


class TraceWriter:
    """Writes one trace file. It is created with the first event, so a run that never began leaves none.

    Args:
        path: the file, which must not exist. Only its owner can read it.
        header: the facts known before the run; its ``canvas_length`` must be that of the events.
        piece, is_special, decode: the model's tokenizer.
        pictures: those that the header's messages show, each once; what a trace has no room for is left out.
        is_made: an empty file exists, whose rights are kept.
    """

    def __init__(
        self,
        path: Path,
        header: TraceHeader,
        piece: Piece,
        is_special: IsSpecial,
        decode: Decode,
        pictures: tuple[Picture, ...] = (),
        *,
        is_made: bool = False,
    ) -> None:
        self.path = path
        self._header = header
        self._piece, self._is_special, self._decode = piece, is_special, decode
        self._pictures = pictures
        self._codec = Codec.for_header(header)
        self._is_made = is_made
        self._budget = RecordBudget()
        self._fresh = NewTokens()
        self._draft = Draft(header.config.eos_token_ids)
        self._reply = EMPTY
        self._file: IO[Any] | None = None
        self._size = 0
        self._closed = False

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def append(self, event: Event) -> None:
        """Writes the next event.

        Raises:
            TraceError: it cannot be written, or is more than a trace holds (``format``). What was written before stays
                readable; the writer is closed.
        """
        if self._closed:
            raise TraceError(f"the trace {self.path} is closed; nothing more can be written to it")
        try:
            self._draft.fold(event)
            fresh = self._fresh.named_by(event)
            pieces = encode_pieces(fresh, self._piece, self._is_special)
            records = [self._frame(b"PIEC", pieces)] if fresh else []
            if isinstance(event, CanvasCommitted):
                records.append(self._new_text(event.block_index))
            elif isinstance(event, GenerationFinished):
                records.append(self._new_text(-1))
            kind, payload, block, step = self._codec.encode(event)
            self._write(b"".join(records) + self._frame(kind, payload, block, step))
        except OSError as error:
            self._give_up()
            raise TraceError(
                f"the trace {self.path} cannot be written ({error.strerror or error}); check the folder and its space"
            ) from error
        except BaseException:
            self._give_up()
            raise

    def close(self, failure: str = "") -> None:
        """Ends the file; ``failure`` says why the run ended early. May be called again.

        Raises:
            TraceError: the end cannot be written; all before is readable.
        """
        if self._file is not None and failure and not self._closed:
            try:
                text = self._new_text(-1)
                self._write(text + self._frame(b"FAIL", json.dumps({"why": failure[:MAX_FAILURE]}).encode()))
            except OSError as error:
                self._give_up()
                raise TraceError(f"the trace {self.path} cannot be closed ({error.strerror or error})") from error
        self._closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _new_text(self, block: int) -> bytes:
        before, self._reply = self._reply, self._draft.reply(self._decode)
        return self._frame(b"TEXT", encode_reply(before, self._reply), block)

    def _frame(self, kind: bytes, payload: bytes, block: int = -1, step: int = -1) -> bytes:
        """Returns a record, after checking that a reader will accept it."""
        fits = len(payload) <= self._codec.most[kind] and self._budget.allows(kind, len(payload), block, step)
        if not fits:
            raise TraceError(f"the run is too long for a trace; {self.path} holds its beginning")
        return frame(kind, payload, block, step)

    def _head(self) -> bytes:
        payload = self._header.to_bytes()
        try:
            if len(payload) > MAX_HEADER:
                raise PayloadError("its header is too large")
            TraceHeader.from_bytes(payload)
        except PayloadError as error:
            raise TraceError(f"the trace {self.path} cannot be written: {error}") from None
        return frame(b"HEAD", payload)

    def _write(self, records: bytes) -> None:
        if self._file is None:
            pictures, room = [], MAX_PICTURED
            for picture in self._pictures:
                if len(picture.data) <= room:
                    pictures.append(self._frame(b"IMAG", picture.data))
                    room -= len(picture.data)
            records = b"".join((opening(self._header.format_version), self._head(), *pictures, records))
            mode = "wb" if self._is_made else "xb"
            self._file = open(  # noqa: SIM115 - closed by close()
                self.path, mode, buffering=0, opener=lambda path, flags: os.open(path, flags, 0o600)
            )
        left = memoryview(records)
        while left:
            left = left[self._file.write(left) :]
        self._size += len(records)

    def _give_up(self) -> None:
        """Removes a partly written record, and closes the file."""
        self._closed = True
        if self._file is None:
            return
        with suppress(OSError):
            self._file.truncate(self._size)
        with suppress(OSError):
            self._file.close()
        self._file = None
        if not self._size:
            self.path.unlink(missing_ok=True)


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
        self._piece, self._is_special, self._read = piece, is_special, decode or self.spelled
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
