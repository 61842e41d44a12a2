"""Encodes the events of a run to bytes and back, bit for bit. Knows no file.

What an event stores is declared at its class (``engine.events``): first its figures, packed by ``struct``, then its
arrays and texts, without padding. An event with wide arrays has two more figures: K u16, and whether it has them u16.
In a run whose canvases differ in length, CANV begins with its own, a u32; all other payloads say it by their size.
Numbers of four bytes are stored by planes: all lowest bytes, then all second ones, as this compresses better. Masks
are bits, the first position in the highest. Tokens are i32, reals f32. A wide array is stored (K, C), and its first
row alone as an exclusive or: these rows are zero where nothing is in doubt.

    SLOT   questions u16, of each its options u16 and whether the argmax is a label u16; log-probabilities f32 (all).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from engine.events import MAX_ANSWER, CanvasStarted, Event, Figure, Row, SlotsRead
from engine.pictures import MAX_BYTES
from engine.tasks.decisions.questions import MAX_OPTIONS, MAX_QUESTIONS
from engine.trace.format import (
    MAX_NUMBER,
    MAX_STEP,
    MAX_TEXT_BYTES,
    MAX_TEXTS,
    MAX_TOP,
    MAX_WHY,
    PayloadError,
)
from engine.trace.header import TraceHeader
from engine.types import Tokens

LENGTH, COUNT, OPTIONS = struct.Struct("<I"), struct.Struct("<H"), struct.Struct("<HH")
BITS = {"tokens": 32, "reals": 32, "mask": 1}  # of a position


class PayloadLayout(NamedTuple):
    """The stored fields of an event's class, in their order."""

    event: Any
    figures: dict[str, Figure]  # with the lengths of arrays that are counted
    rows: dict[str, Row]
    head: struct.Struct
    is_wide: bool  # has arrays of K values a position


def _layout(event: Any) -> PayloadLayout:
    hints = get_type_hints(event, include_extras=True)
    noted = {name: get_args(hints[name])[-1:] for name in event.record.order or [field.name for field in fields(event)]}
    stored: dict[str, Any] = {name: one[0] for name, one in noted.items() if one and isinstance(one[0], Figure | Row)}
    rows = {name: note for name, note in stored.items() if isinstance(note, Row)}
    counted = stored | {name: Figure("I", MAX_ANSWER) for name, row in rows.items() if row.is_counted}
    figures = {name: note for name, note in counted.items() if isinstance(note, Figure)}
    is_wide = any(row.is_wide for row in rows.values())
    letters = "".join(figure.letter for figure in figures.values())
    return PayloadLayout(event, figures, rows, struct.Struct(f"<{letters}{'HH' if is_wide else ''}"), is_wide)


LAYOUTS = {event.record.code: _layout(event) for event in get_args(Event)}


@dataclass(frozen=True)
class Codec:
    """Payloads of runs with canvases of ``length`` positions; tokens are below ``vocab_size``, unless that is 0.

    ``options``: the number of options of each question of a decision; None if that is not known. ``has_shorter``:
    canvases may be shorter.
    """

    length: int
    vocab_size: int
    options: tuple[int, ...] | None = None
    has_shorter: bool = False

    @staticmethod
    def for_header(header: TraceHeader) -> Codec:
        decision = header.decision
        options = () if decision is None else tuple(len(question.options) for question in decision.questions)
        return Codec(header.canvas_length, header.model.vocab_size, options, not header.config.has_equal_blocks)

    @cached_property
    def most(self) -> dict[bytes, int]:
        """The most bytes that a payload of each kind after the header can have."""
        slots = {b"SLOT": COUNT.size + MAX_QUESTIONS * (OPTIONS.size + 4 * MAX_OPTIONS)}
        others = {b"IMAG": MAX_BYTES, b"PIEC": MAX_TEXTS, b"TEXT": MAX_TEXT_BYTES, b"FAIL": MAX_WHY}
        return {code: self._most(layout) for code, layout in LAYOUTS.items()} | slots | others

    def _most(self, layout: PayloadLayout) -> int:
        size = LENGTH.size + layout.head.size
        for row in layout.rows.values():
            count = 1 if row.kind == "token" else self.length * (MAX_TOP if row.is_wide else 1)
            count = MAX_ANSWER if row.is_counted else count
            size += (row.most or MAX_TEXT_BYTES) if row.kind == "text" else -(-count * BITS.get(row.kind, 32) // 8)
        return min(size, MAX_STEP)

    def encode(self, event: Event) -> tuple[bytes, bytes, int, int]:
        """Returns an event's kind, payload, block and step.

        Raises:
            ValueError: an array has another size than the canvas.
        """
        payload = _encode_slots(event) if isinstance(event, SlotsRead) else self._encode(event)
        return event.record.code, payload, getattr(event, "block_index", -1), getattr(event, "step", -1)

    def _encode(self, event: Event) -> bytes:
        layout = LAYOUTS[event.record.code]
        rows = {name: getattr(event, name) for name in layout.rows}
        arrays = [rows[name] for name, row in layout.rows.items() if row.kind in BITS and not row.is_counted]
        shapes = [array.shape for array in arrays if array is not None]
        width = next((shape[1] for shape in shapes if len(shape) > 1), None)
        length = shapes[0][0] if shapes and self.has_shorter else self.length
        if length > self.length or (width or 0) > MAX_TOP or not {*shapes} <= {(length,), (length, width)}:
            raise ValueError(f"arrays of shapes {shapes} on a canvas of {self.length}")
        figures = []
        for name, figure in layout.figures.items():
            value = len(rows[name]) if name in rows else getattr(event, name)
            figures.append(figure.options.index(value) if figure.options else value)
        figures += [width or 0, width is not None] if layout.is_wide else []
        own_length = LENGTH.pack(length) if self.has_shorter and isinstance(event, CanvasStarted) else b""
        packed = [_packed(row, rows[name], rows.get(row.over)) for name, row in layout.rows.items()]
        return b"".join((own_length, layout.head.pack(*figures), *packed))

    def decode(self, code: bytes, payload: bytes, block: int, step: int) -> Event:
        """Returns the event of a payload. Its arrays are read-only.

        Raises:
            PayloadError: the payload is not of this kind.
        """
        reading, layout = _Reading(payload, self.vocab_size), LAYOUTS[code]
        if layout.event is SlotsRead:
            event: Event = _decode_slots(reading, block, self.options)
        else:
            values = {"block_index": block, "step": step} | self._decode(reading, layout)
            event = layout.event(**{field.name: values[field.name] for field in fields(layout.event)})
        reading.end()
        return event

    def _decode(self, reading: _Reading, layout: PayloadLayout) -> dict[str, Any]:
        """Returns the stored fields of a payload."""
        own_length = reading.figures(LENGTH)[0] if self.has_shorter and layout.event is CanvasStarted else None
        figures = reading.figures(layout.head)
        width, has_top = figures[-2:] if layout.is_wide else (0, 0)
        length = self._length(reading.left, layout, width) if own_length is None else own_length
        if length > self.length:
            raise PayloadError("its canvas is too long")
        if width > MAX_TOP or has_top > 1 or (width and not has_top):
            raise PayloadError("it contradicts itself")
        values: dict[str, Any] = {"C": length}
        for (name, figure), value in zip(layout.figures.items(), figures, strict=False):
            most = values[figure.most] if isinstance(figure.most, str) else figure.most
            if not (abs(value) <= MAX_NUMBER if figure.letter == "d" else value <= most):  # False for NaN, too
                raise PayloadError("it contradicts itself")
            values[name] = figure.options[value] if figure.options else value
        for name, row in layout.rows.items():
            size = values[name] if row.is_counted else length
            values[name] = None if row.is_wide and not has_top else reading.row(row, size, width, values.get(row.over))
        return values

    def _length(self, size: int, layout: PayloadLayout, width: int) -> int:
        """Returns the length of a payload's canvas, whose arrays have so many bytes."""
        bits = sum(BITS.get(row.kind, 0) * (width if row.is_wide else 1) for row in layout.rows.values())
        is_by_size = self.has_shorter and bits and not any(row.is_counted for row in layout.rows.values())
        return 8 * size // bits if is_by_size else self.length


def _packed(row: Row, value: Any, over: Any) -> bytes:
    """Returns the bytes of an array or a text."""
    if value is None:
        return b""
    if row.kind == "text":
        text: bytes = value.encode()
        return text[: row.most or None]
    if row.kind == "mask":
        return np.packbits(value).tobytes()
    words = np.asarray(value, dtype="<f4" if row.kind == "reals" else "<i4").T
    if over is not None and row.is_wide:
        words = words.copy()
        words[:1] ^= over
    return _planes(words if over is None or row.is_wide else words ^ over)


def _encode_slots(event: SlotsRead) -> bytes:
    figures = zip(event.logprobs, event.argmax_is_label, strict=True)
    head = COUNT.pack(len(event.logprobs)) + b"".join(
        OPTIONS.pack(len(logprobs), is_label) for logprobs, is_label in figures
    )
    return head + _planes(np.concatenate(event.logprobs))


def _decode_slots(reading: _Reading, block: int, expected: tuple[int, ...] | None) -> SlotsRead:
    (count,) = reading.figures(COUNT)
    figures = [reading.figures(OPTIONS) for _ in range(count)]
    if not 1 <= count <= MAX_QUESTIONS or any(not 2 <= n <= MAX_OPTIONS or is_label > 1 for n, is_label in figures):
        raise PayloadError("it contradicts itself")
    if expected is not None and tuple(options for options, _ in figures) != expected:
        raise PayloadError("it does not match the questions")
    whole = reading.reals(sum(options for options, _ in figures))
    if (whole > 0).any():
        raise PayloadError("it has a probability over 1")
    edges = np.cumsum([options for options, _ in figures])[:-1]
    return SlotsRead(
        block, tuple(map(_fixed, np.split(whole, edges))), tuple(bool(is_label) for _, is_label in figures)
    )


class _Reading:
    """Reads the fields of a payload, once, in order."""

    def __init__(self, payload: bytes, vocab_size: int) -> None:
        self._payload, self._place, self._vocab_size = payload, 0, vocab_size

    def _next(self, count: int) -> bytes:
        piece = self._payload[self._place : self._place + count]
        if len(piece) != count:
            raise PayloadError("it is too short")
        self._place += count
        return piece

    def figures(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self._next(layout.size))

    def tokens(self, count: int, mixed_with: Tokens | None = None) -> Tokens:
        """Reads token ids (count,); ``mixed_with`` undoes an exclusive or."""
        words = _whole(self._next(4 * count), "<i4").astype(np.int32, copy=False)
        if mixed_with is not None:
            words = words ^ mixed_with
        if count and (words.min() < 0 or (self._vocab_size and words.max() >= self._vocab_size)):
            raise PayloadError("it has a token that is not in the vocabulary")
        return _fixed(words)

    def row(self, row: Row, count: int, width: int, over: Tokens | None) -> Any:
        """Reads an array of so many positions, or a text."""
        match row.kind:
            case "text":
                text = self.text()
                if row.most and len(text) > row.most:
                    raise PayloadError("it is too long")
                return text
            case "token":
                return int(self.tokens(1)[0]) if self.left else None
            case "mask":
                return self.mask(count)
        if not row.is_wide:
            return self.reals(count) if row.kind == "reals" else self.tokens(count, over)
        likeliest = np.zeros((width, count), dtype=np.int32)
        likeliest[:1] = 0 if over is None else over
        values = self.reals(likeliest.size) if row.kind == "reals" else self.tokens(likeliest.size, likeliest.ravel())
        return _fixed(values.reshape(likeliest.shape).T)

    def reals(self, count: int) -> NDArray[np.float32]:
        values = _whole(self._next(4 * count), "<f4").astype(np.float32, copy=False)
        if not (np.abs(values) <= MAX_NUMBER).all():  # False for NaN, too
            raise PayloadError("it has a number that is out of bounds")
        return _fixed(values)

    def mask(self, count: int) -> NDArray[np.bool_]:
        bits = np.frombuffer(self._next(-(-count // 8)), dtype=np.uint8)
        return _fixed(np.unpackbits(bits, count=count).astype(np.bool_))

    def text(self) -> str:
        """Reads the rest of the payload."""
        try:
            return self._next(self.left).decode()
        except UnicodeDecodeError:
            raise PayloadError("its text is not UTF-8") from None

    @property
    def left(self) -> int:
        """Bytes that are not read yet."""
        return len(self._payload) - self._place

    def end(self) -> None:
        if self.left:
            raise PayloadError("it is too long")


def _planes(words: NDArray[Any]) -> bytes:
    """Returns words of four bytes, little-endian, by planes."""
    kind = "<f4" if words.dtype.kind == "f" else "<i4"
    return np.ascontiguousarray(words, dtype=kind).view(np.uint8).reshape(-1, 4).T.tobytes()


def _whole(planes: bytes, kind: str) -> NDArray[Any]:
    """Returns the words that ``_planes`` encoded."""
    return np.ascontiguousarray(np.frombuffer(planes, dtype=np.uint8).reshape(4, -1).T).view(kind).ravel()


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    """Makes an array contiguous and read-only: readers share it."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array
