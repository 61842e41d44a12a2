"""The trace file's frame: a signature, then records with checksums. ``codec`` knows what they hold.

All numbers are little-endian. The file begins with 16 bytes: the signature (8), the format's version (u32), the CRC-32
of those twelve. Then records, each with a head of 28 bytes before its payload:

    kind     4 letters.
    stored   u32, bytes of the payload in the file.
    size     u32, bytes of the payload unpacked (zlib).
    block    i32, -1 if it has none.
    step     i32, -1 if it has none.
    payload  u32, CRC-32 of the stored bytes.
    head     u32, CRC-32 of the 24 bytes before.

A reader needs only the heads to find all records. A file that was cut or damaged is valid up to that place. Kinds, in
the order of a run (``header``, ``texts`` and ``codec`` say what is in them; C positions, K top candidates):

    HEAD   model, prompt, settings and seed, JSON; first, once.
    IMAG   the unchanged file of a picture in the messages; before the first event.
    PIEC   texts of tokens that the next record names and no earlier one named.
    PREF   the prompt was prefilled.
    CANV   a block's noise, or its tokens written before and its filler, and its pinned positions.
    STEP   a denoising step.
    PINS   the canvas was read under the format of the answer, and its beginning pinned.
    SLOT   the results of the slots of a decision's canvas.
    TEXT   the answer as it reads with the next record (COMM, DONE or FAIL), JSON.
    COMM   a block's final tokens.
    PART   more of the answer's text, in place of blocks, of a run that reported no steps.
    DONE   the end of the run.
    FAIL   why the run ended early, JSON; instead of DONE.

A record of an unknown kind is skipped, as are VRFY and TRYE of earlier versions. What a reader must not skip raises the
version.

The bounds below are checked before anything is allocated, by the reader and by the writer: what is written can be read.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from engine.errors import SafelightError
from engine.events import MAX_BLOCKS, MAX_RECORDS, MAX_STEPS

SUFFIX = ".sltrace"
SIGNATURE = b"\x89SLT\r\n\x1a\n"  # holds line ends and an end-of-file, so that a transfer as text is detected
VERSION = 5
"""1: all other runs; 2: with set shares, or not block diffusion; 3: with pictures; 4: blocks may stall; 5: canvases may
differ in length, or be committed in part.
"""
OPENING = struct.Struct("<8sII")
HEAD = struct.Struct("<4sIIiiII")

MAX_TOP = 64  # candidates a position, as in the settings
MAX_TRACED_VOCABULARY = 2**24  # of a vocabulary
MAX_STEP = 8 * 2**20  # bytes of one, unpacked: eight candidates on the largest canvas, 64 on one of 15,000
MAX_UNPACKED = 2**30  # bytes of all payloads of a file: a thousand blocks of 48 steps on canvases of 256
MAX_HEADER = 8 * 2**20  # bytes of the header, unpacked; a prompt of 262,144 tokens makes some four million
MAX_HEADER_VALUES = 10**6  # in the header's JSON
MAX_TEXT_BYTES = 4 * 2**20  # bytes of one TEXT, unpacked
MAX_WHY = 64 * 2**10  # bytes of a FAIL, unpacked
MAX_TEXTS = 16 * 2**20  # bytes of all texts of tokens, and of all texts of the answer
MAX_PICTURED = 256 * 2**20  # bytes of all pictures
MAX_PIECES = 16_384  # of texts of tokens
MAX_NUMBER = 1e9  # temperatures, nats, seconds: larger values are invalid, and their sums would overflow
LEVEL = 1  # of zlib: on planes within a hundredth of higher levels, in half the time
PACKED = 0  # of zlib, for compressed content


class TraceError(SafelightError):
    """The error of a trace that cannot be read or written, in one sentence."""


class PayloadError(ValueError):
    """A payload is not what its kind says. People get a ``TraceError`` that names the place."""


class Head(NamedTuple):
    """A record's head, and the byte of the file where its payload begins."""

    kind: bytes
    stored: int
    size: int
    block: int
    step: int
    crc: int
    start: int

    @property
    def end(self) -> int:
        """The byte where the next record begins."""
        return self.start + self.stored


class RecordBudget:
    """Counts the records of a file against the bounds. Needs only the heads, so that no payload is read before."""

    def __init__(self) -> None:
        self._records = self._unpacked = self._pieces = 0
        self._of_kind = {b"PIEC": 0, b"TEXT": 0, b"IMAG": 0}

    def allows(self, kind: bytes, size: int, block: int, step: int) -> bool:
        """Returns True if a record of ``size`` bytes unpacked may come next, and counts it."""
        self._records += 1
        self._unpacked += size
        if kind in self._of_kind:
            self._of_kind[kind] += size
            self._pieces += kind == b"PIEC"
            most = MAX_PICTURED if kind == b"IMAG" else MAX_TEXTS
            if self._of_kind[kind] > most or self._pieces > MAX_PIECES:
                return False
        is_placed = block < MAX_BLOCKS and step < MAX_STEPS
        return is_placed and self._records <= MAX_RECORDS and self._unpacked <= MAX_UNPACKED


def opening(version: int = 1) -> bytes:
    begin = struct.pack("<8sI", SIGNATURE, version)
    return begin + struct.pack("<I", zlib.crc32(begin))


def frame(kind: bytes, payload: bytes, block: int = -1, step: int = -1) -> bytes:
    stored = zlib.compress(payload, PACKED if kind == b"IMAG" else LEVEL)
    head = struct.pack("<4sIIiiI", kind, len(stored), len(payload), block, step, zlib.crc32(stored))
    return head + struct.pack("<I", zlib.crc32(head)) + stored


def read_head(raw: bytes, start: int) -> Head | None:
    """Returns the head in 28 bytes, with its payload at ``start``; None if its checksum is wrong."""
    kind, stored, size, block, step, crc, head_crc = HEAD.unpack(raw)
    if zlib.crc32(raw[:-4]) != head_crc:
        return None
    return Head(kind, stored, size, block, step, crc, start)


def unpack(head: Head, stored: bytes, most: int) -> bytes:
    """Returns a record's payload, at most ``most`` bytes.

    Raises:
        PayloadError: too large, a wrong checksum, or another size than the head says.
    """
    if head.size > most:
        raise PayloadError("it is too large")
    if len(stored) != head.stored or zlib.crc32(stored) != head.crc:
        raise PayloadError("its checksum is wrong")
    try:
        inflate = zlib.decompressobj()
        payload = inflate.decompress(stored, head.size + 1)  # bounded, whatever the stream would unfold to
    except zlib.error:
        raise PayloadError("it cannot be unpacked") from None
    if len(payload) != head.size or not inflate.eof or inflate.unused_data:
        raise PayloadError("it does not have the stated size")
    return payload
