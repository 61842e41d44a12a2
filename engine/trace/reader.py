"""Opens a trace: heads of records are read at once, payloads on request.

A file that was cut or damaged is valid up to that place. Needs neither the model nor torch. The file may come from a
stranger: sizes are checked before anything is allocated, and nothing in it is run.
"""

from __future__ import annotations

import hashlib
import io
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engine.errors import SafelightError
from engine.events import Event
from engine.files import open_regular, replacing
from engine.pictures import Picture
from engine.text.reply import Reply
from engine.trace.codec import Codec
from engine.trace.format import MAX_HEADER, Head, PayloadError, TraceError, unpack
from engine.trace.header import TraceHeader, read_object
from engine.trace.index import SLACK, read_beginning, read_index, where
from engine.trace.recording import Draft, Entry, Recording
from engine.trace.texts import AnswerText, TokenTexts

if TYPE_CHECKING:
    from typing import BinaryIO

CACHE_BYTES = 64 * 2**20  # of unpacked events: some sixty blocks of the embedded models, three of 256 tokens


def open_trace(path: str | Path) -> TraceFile:
    """Opens a trace file. Damage to its events is found when they are read.

    Raises:
        TraceError: there is no such file, it is no trace, a newer version wrote it, or its beginning is damaged.
    """
    path = Path(path)
    file = _open(path)
    try:
        return TraceFile(path, file)
    except BaseException as error:
        file.close()
        if isinstance(error, OSError):
            raise TraceError(f"{path} cannot be read ({error.strerror or error})") from None
        raise


def read_header(path: Path, most: int = MAX_HEADER) -> tuple[TraceHeader, int]:
    """Reads only the header, for a list of runs.

    Returns:
        The header, and the bytes that were unpacked for it, of which ``most`` are allowed.

    Raises:
        TraceError: as ``open_trace``, or the header is larger.
    """
    with _open(path) as file:
        try:
            head = read_beginning(path, file)
            if head.size > most:
                raise TraceError(f"{path} has too long a prompt to be listed; open it by its name")
            return _read_header(path, file, head, most)[0], head.size
        except OSError as error:
            raise TraceError(f"{path} cannot be read ({error.strerror or error})") from None


def _read_header(path: Path, file: BinaryIO, head: Head, most: int) -> tuple[TraceHeader, tuple[str, ...]]:
    try:
        return TraceHeader.from_bytes(_payload(file, head, most))
    except PayloadError as error:
        raise TraceError(f"{path} is damaged at its beginning: {error}; nothing of it can be shown") from None


def _payload(file: BinaryIO, head: Head, most: int) -> bytes:
    if max(head.size, head.stored) > most + SLACK:  # checked before memory is allocated
        raise PayloadError("it is too large")
    file.seek(head.start)
    return unpack(head, file.read(head.stored), most)


def _open(path: Path) -> BinaryIO:
    try:
        return io.BufferedReader(cast(io.FileIO, open_regular(path)))  # so that one read serves many small records
    except OSError as error:
        raise TraceError(f"{path} cannot be opened ({error.strerror or error})") from None
    except SafelightError as error:
        raise TraceError(str(error)) from None


class TraceFile(Recording):
    """A trace in a file, read on request. Threads may share it; the file closes with the last reference."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file, self._lock = file, threading.RLock()
        self.close = weakref.finalize(self, file.close)
        self._whole: Reply | None = None  # the answer, after the first request
        first = read_beginning(path, file)
        self._header, self._unknown_settings = _read_header(path, file, first, MAX_HEADER)
        self._codec = Codec.for_header(self._header)
        self._cache: OrderedDict[int, tuple[Event, int]] = OrderedDict()
        self._cached_bytes = 0
        self._texts = TokenTexts()
        # By start byte, as long as they are in use: reading them takes longer than a frame.
        self._pictures: weakref.WeakValueDictionary[int, Picture] = weakref.WeakValueDictionary()
        self._index = read_index(file, first, self._codec.most, is_fork=self._header.parent is not None)
        self._failure = ""
        if self._index.failure is not None:
            try:
                payload = self._payload(self._index.failure, self._codec.most[b"FAIL"])
                self._failure = read_object(payload, dict[str, str])["why"]
            except (PayloadError, KeyError):
                self._failure = "The run failed; why cannot be read."

    @property
    def header(self) -> TraceHeader:
        return self._header

    @property
    def entries(self) -> Sequence[Entry]:
        return self._index.entries

    @property
    def pictures(self) -> tuple[Picture, ...]:
        shown = {image["digest"]: image for message in self.header.messages for image in message.get("images", ())}
        pictures = {}
        for head in self._index.pictures:
            picture = self._pictures.get(head.start)
            if picture is None:
                with suppress(PayloadError, OSError):  # the run is readable without it
                    data = self._payload(head, self._codec.most[b"IMAG"])
                    digest = hashlib.sha256(data).hexdigest()
                    if digest in shown:
                        picture = Picture(digest, data, shown[digest]["width"], shown[digest]["height"])
            if picture is not None:
                pictures[picture.digest] = self._pictures[head.start] = picture
        return tuple(pictures.values())

    @property
    def failure(self) -> str:
        return self._failure

    @property
    def notice(self) -> str:
        sentences = [self._index.notice]
        if self._failure:
            sentences.append(self._failure)
        if self._unknown_settings:
            names = ", ".join(name[:40] for name in self._unknown_settings[:8])
            sentences.append(
                f"It was made with settings that this Safelight does not have ({names}), and is only shown."
            )
        return " ".join(sentence for sentence in sentences if sentence)

    def event(self, index: int) -> Event:
        place = range(len(self._index.heads))[index]  # raises IndexError if there is none
        with self._lock:
            if place in self._cache:
                self._cache.move_to_end(place)
                return self._cache[place][0]
            event, size = self._read(place)
            self._cache[place] = event, size
            self._cached_bytes += size
            while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
                self._cached_bytes -= self._cache.popitem(last=False)[1][1]
            return event

    def _read(self, place: int) -> tuple[Event, int]:
        head, entry = self._index.heads[place], self._index.entries[place]
        try:
            payload = self._payload(head, self._codec.most[head.kind])
            return self._codec.decode(head.kind, payload, head.block, head.step), len(payload)
        except (PayloadError, OSError) as error:
            raise TraceError(f"{self.path} is damaged {where(entry)}: {_why(error)}") from None

    def _payload(self, head: Head, most: int) -> bytes:
        with self._lock:
            if self._file.closed:
                raise OSError("it was closed")
            return _payload(self._file, head, most)

    def piece(self, token: int) -> str:
        return self._piece(int(token))[0]

    def is_special(self, token: int) -> bool:
        return self._piece(int(token))[1]

    def _piece(self, token: int) -> tuple[str, bool]:
        """Returns a token's text; for a damaged one its number, as painting code cannot handle an error."""
        with self._lock:
            while token not in self._texts and self._texts.read < len(self._index.pieces):
                head = self._index.pieces[self._texts.read]
                try:
                    self._texts.add(self._payload(head, self._codec.most[b"PIEC"]))
                except (PayloadError, OSError):
                    self._texts.skip()
            return self._texts.get(token)

    def reply(self, block: int | None = None) -> Reply:
        if block is not None and Entry("commit", block) not in self.entries:
            raise IndexError(f"block {block} was not committed")
        with self._lock:
            if block is not None:
                return self._reply(block)
            if self._whole is None:
                committed, texts = self._reply(None), self._index.texts
                is_whole = bool(texts) and texts[-1].block == -1
                self._whole = committed if is_whole else self._unfinished(committed)
            return self._whole

    def _reply(self, block: int | None) -> Reply:
        answer = AnswerText()
        try:
            for head in self._index.texts:
                answer.add(self._payload(head, self._codec.most[b"TEXT"]))
                if block is not None and head.block == block:
                    return answer.reply
            if block is not None:
                raise PayloadError(f"that of block {block} is missing")
        except (PayloadError, OSError) as error:
            raise TraceError(f"the text in {self.path} cannot be read: {_why(error)}") from None
        return answer.reply

    def _unfinished(self, committed: Reply) -> Reply:
        """Adds what the file has no text of: the tokens of a block cut short, or the text that had arrived."""
        draft = Draft(self.config.eos_token_ids)
        if any(entry.kind == "text" for entry in self.entries):
            draft = Draft.from_events(self.events)
        else:
            for place in _open_end(self.entries):
                draft.fold(self.event(place))

        more = draft.reply(self.spelled)
        return Reply(committed.text + more.text, committed.thinking + more.thinking)

    def save(self, path: Path) -> None:
        with replacing(path) as part, part.open("wb") as copy, self._lock:
            self._file.seek(0)
            left = self._index.end
            while left:
                read = self._file.read(min(left, 2**20))
                if not read:
                    raise OSError("it has become shorter")
                copy.write(read)
                left -= len(read)


def _open_end(entries: Sequence[Entry]) -> range:
    """Returns the places of the last events from which the draft of an unfinished block is read: its last step, and
    on.
    """
    first = len(entries)
    while first and entries[first - 1].kind in ("step", "pins", "slots"):
        first -= 1
        if entries[first].kind == "step":
            break
    return range(first, len(entries))


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
