"""The index of a trace file's records, read from their heads alone, up to where the file is valid."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.events import step_number
from engine.trace.codec import LAYOUTS
from engine.trace.format import HEAD, OPENING, SIGNATURE, VERSION, Head, RecordBudget, TraceError, opening, read_head
from engine.trace.recording import Entry

if TYPE_CHECKING:
    from typing import BinaryIO

SLACK = 2**20  # incompressible data may be stored a little larger than it is
ENDINGS = (b"COMM", b"DONE", b"FAIL")  # the records that a TEXT precedes


@dataclass(frozen=True)
class Index:
    """The records up to where the file is valid. ``heads`` go with ``entries``, one an event."""

    header: Head
    heads: list[Head] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    pictures: list[Head] = field(default_factory=list)
    pieces: list[Head] = field(default_factory=list)
    texts: list[Head] = field(default_factory=list)
    failure: Head | None = None
    notice: str = ""  # why there is no more; empty after the end of a run, and if ``failure`` says it

    @property
    def end(self) -> int:
        """The number of valid bytes of the file."""
        lasts = (self.header, *self.pictures[-1:], *self.heads[-1:], *self.pieces[-1:], *self.texts[-1:])
        ends = [record.end for record in lasts]
        return max(ends if self.failure is None else (*ends, self.failure.end))


def read_beginning(path: Path, file: BinaryIO) -> Head:
    """Checks the file's first bytes.

    Returns:
        The head of its first record, that of the run's header.

    Raises:
        TraceError: this is no trace, a newer version wrote it, or it is damaged or cut off here.
        OSError: the file cannot be read.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    raw = file.read(OPENING.size)
    if raw[:8] != SIGNATURE[: len(raw)] or not raw:
        raise TraceError(f"{path} is not a Safelight trace")
    if len(raw) == OPENING.size and raw not in {opening(version) for version in range(1, VERSION + 1)}:
        _, version, crc = OPENING.unpack(raw)
        if crc == zlib.crc32(raw[:-4]) and version > VERSION:
            raise TraceError(
                f"{path} was written by a newer Safelight (format {version}, this one reads {VERSION}); update it"
            )
        raise TraceError(f"{path} is damaged at its beginning; nothing of it can be shown")
    head = _head_at(file, OPENING.size, size)
    if head is None or head == "cut":
        raise TraceError(f"{path} is cut off at its beginning; nothing of it can be shown")
    if head == "damaged" or head.kind != b"HEAD":
        raise TraceError(f"{path} is damaged at its beginning; nothing of it can be shown")
    return head


def read_index(file: BinaryIO, header: Head, most: Mapping[bytes, int], *, is_fork: bool) -> Index:
    """Reads the heads of all records after the header.

    Args:
        most: bytes that a payload of each kind can have, unpacked.
        is_fork: True if the run shares blocks with another; these may be left out.

    Raises:
        OSError: the file cannot be read.
    """
    size, budget, order = file.seek(0, os.SEEK_END), RecordBudget(), Order(is_fork)
    index = Index(header)
    text: Head | None = None  # counts only if the event after it exists
    place = header.end
    while True:
        head = _head_at(file, place, size)
        if head is None:
            return replace(
                index,
                notice="" if order.is_over else _notice("The recording stops before the run's end", index.entries),
            )
        if head == "cut":
            return replace(index, notice=_notice("The trace is cut off", index.entries))
        if head == "damaged" or order.is_over:
            break
        place = head.end
        kind, largest = head.kind, most.get(head.kind)
        if not budget.allows(kind, 0 if largest is None else head.size, head.block, head.step):
            break
        if largest is not None and (head.size > largest or head.stored > largest + SLACK):
            break
        if kind == b"PIEC":
            index.pieces.append(head)
        elif kind == b"IMAG":
            if index.entries:
                break
            index.pictures.append(head)
        elif kind == b"TEXT":
            text = head
        elif largest is not None:
            if not order.allows(kind, head.block, head.step):
                break
            if text is not None:
                if kind not in ENDINGS or text.block != head.block:
                    break
                index.texts.append(text)
                text = None
            if kind == b"FAIL":
                index = replace(index, failure=head)
            else:
                index.heads.append(head)
                index.entries.append(Entry(LAYOUTS[kind].event.record.kind, head.block, head.step))
    return replace(index, notice=_notice("The trace is damaged", index.entries))


class Order:
    """The order of records in a run. A fork may leave out blocks that it shares or keeps."""

    def __init__(self, is_fork: bool) -> None:
        self._is_fork = is_fork
        self._block, self._step = -1, -1
        self._is_open = self._is_read = self._is_text = False
        self._is_marked = False  # since its last step, or its beginning, the block has a PINS or a SLOT
        self.is_over = False

    def allows(self, kind: bytes, block: int, step: int) -> bool:
        """Returns True if an event's record, or FAIL, may come next, and moves on to it."""
        if kind == b"CANV":
            next_one = block > self._block if self._is_fork else block == self._block + 1
            fits = not (self._is_open or self._is_text) and step == -1 and next_one
            self._block, self._step, self._is_open, self._is_marked = block, -1, True, False
        elif kind == b"STEP":
            fits = self._is_open and block == self._block and step == self._step + 1
            self._step, self._is_marked = step, False
        elif kind == b"PINS":  # one between two steps
            fits = self._is_open and block == self._block and step == self._step + 1 and not self._is_marked
            self._is_marked = True
        elif kind == b"SLOT" and self._is_open:  # one of a block
            fits = block == self._block and step == -1 and self._step >= 0 and not self._is_marked
            self._is_marked = True
        elif kind == b"SLOT":  # of a run that reported no steps
            fits = block == 0 and step == self._block == -1 and not self._is_text
            self._is_text = True
        elif kind == b"COMM":
            fits = self._is_open and block == self._block and step == -1 and self._step >= 0
            self._is_open = False
        elif kind == b"PART":
            fits = block == step == self._block == -1
            self._is_text = True
        else:
            fits = block == step == -1 and (kind != b"PREF" or not (self._is_open or self._is_read))
            self._is_read = True
            self.is_over = kind != b"PREF"
        return fits


def _head_at(file: BinaryIO, place: int, size: int) -> Head | Literal["cut", "damaged"] | None:
    """Returns the head of the record at a byte of a file of so many; None at its end."""
    if place == size:
        return None
    file.seek(place)
    raw = file.read(HEAD.size)
    if len(raw) < HEAD.size:
        return "cut"
    head = read_head(raw, place + HEAD.size)
    if head is None:
        return "damaged"
    return head if head.end <= size else "cut"


_PLACES: dict[str, str] = {layout.event.record.kind: layout.event.record.place for layout in LAYOUTS.values()}


def where(entry: Entry) -> str:
    return _PLACES[entry.kind].format(step=step_number(entry.step), block=entry.block + 1)


def _notice(what: str, entries: list[Entry]) -> str:
    """Returns ``what`` happened to a trace, and how far it can be followed."""
    if not entries:
        return f"{what}; nothing is left of the run."
    return f"{what}; it can be followed up to {where(entries[-1]).removeprefix('at ')}."
