"""Encodes the events of a run to bytes and back, bit for bit. Knows no file.

Arrays follow each other without padding. In a run whose canvases differ in length, CANV begins with its own, a u32; all
other payloads say it by their size. Numbers of four bytes are stored by planes: all lowest bytes, then all second
ones, as this compresses better. Masks are bits, the first position in the highest. Tokens are i32, reals f64 unless
they say f32.

    PREF   prompt_tokens u64, reused_tokens u64, seconds.
    CANV   canvas (C), pinned_mask (C), filler, if the block has one.
    STEP   temperature, seconds, K u16, whether there is a top u16, argmax (C), candidates ^ argmax (C),
           next_canvas ^ candidates (C), entropy f32 (C), accepted_mask (C), top_tokens (K, C),
           top_probabilities f32 (K, C).
    PINS   round u32, pinned u32, written u32, canvas (C).
    SLOT   questions u16, of each its options u16 and whether the argmax is a label u16; log-probabilities f32 (all).
    COMM   text_length u32, steps u32, reason u32 (0 converged, 1 step cap, 2 stalled; 3, of earlier
           versions, is read as 0), tokens (C).
    PART   tokens that came with it u32, whether it is thinking u32, text in UTF-8.
    DONE   reason u32 (0 eos, 1 length, 2 cancelled), blocks u32, steps u32, N u32, seconds, tokens (N), why in UTF-8.

The row of the likeliest tokens is stored ``^ argmax``: all these rows are zero where nothing is in doubt.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.events import (
    BlockEnd,
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefillFinished,
    PrefixPinned,
    SlotsRead,
    StepFinished,
    TextArrived,
)
from engine.pictures import MOST_BYTES
from engine.tasks.decisions.questions import MOST_OPTIONS, MOST_QUESTIONS
from engine.trace.format import (
    MOST_ANSWER,
    MOST_BLOCKS,
    MOST_NUMBER,
    MOST_RECORDS,
    MOST_STEP,
    MOST_STEPS,
    MOST_TEXT,
    MOST_TEXTS,
    MOST_TOP,
    MOST_WHY,
    PayloadError,
)
from engine.trace.header import TraceHeader
from engine.types import Tokens

Finished = Literal["eos", "length", "cancelled"]
COMMITTED: tuple[BlockEnd, ...] = get_args(BlockEnd)
FINISHED: tuple[Finished, ...] = get_args(Finished)

PREF, STEP, COMM, DONE = struct.Struct("<QQd"), struct.Struct("<ddHH"), struct.Struct("<III"), struct.Struct("<IIIId")
PART, PINS, COUNT, OPTIONS = struct.Struct("<II"), struct.Struct("<III"), struct.Struct("<H"), struct.Struct("<HH")
LENGTH, FILLER = struct.Struct("<I"), struct.Struct("<i")
MOST_END = 1_000  # bytes of why a run ended early


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
        mask = -(-self.length // 8)
        return {
            b"IMAG": MOST_BYTES,
            b"PIEC": MOST_TEXTS,
            b"PREF": PREF.size,
            b"CANV": LENGTH.size + 4 * self.length + mask + FILLER.size,
            b"STEP": min(STEP.size + 16 * self.length + mask + 8 * self.length * MOST_TOP, MOST_STEP),
            b"PINS": PINS.size + 4 * self.length,
            b"SLOT": COUNT.size + MOST_QUESTIONS * (OPTIONS.size + 4 * MOST_OPTIONS),
            b"TEXT": MOST_TEXT,
            b"COMM": COMM.size + 4 * self.length,
            b"PART": MOST_TEXT,
            b"DONE": DONE.size + 4 * MOST_ANSWER + MOST_END,
            b"FAIL": MOST_WHY,
        }

    def encode(self, event: Event) -> tuple[bytes, bytes, int, int]:
        """Returns an event's kind, payload, block and step.

        Raises:
            ValueError: an array has another size than the canvas.
        """
        match event:
            case PrefillFinished():
                return b"PREF", PREF.pack(event.prompt_tokens, event.reused_tokens, event.seconds), -1, -1
            case CanvasStarted():
                canvas, pinned = self._sized(event.canvas, event.pinned_mask)
                own = LENGTH.pack(len(canvas)) if self.has_shorter else b""
                filler = b"" if event.filler is None else FILLER.pack(event.filler)
                return b"CANV", own + _planes(canvas) + _bits(pinned) + filler, event.block_index, -1
            case StepFinished():
                return b"STEP", self._encode_step(event), event.block_index, event.step
            case PrefixPinned():
                figures = PINS.pack(event.round, event.pinned, event.written)
                return b"PINS", figures + _planes(*self._sized(event.canvas)), event.block_index, event.step
            case SlotsRead():
                return b"SLOT", _encode_slots(event), event.block_index, -1
            case CanvasCommitted():
                figures = COMM.pack(event.text_length, event.steps, COMMITTED.index(event.reason))
                return b"COMM", figures + _planes(*self._sized(event.tokens)), event.block_index, -1
            case TextArrived():
                return b"PART", PART.pack(event.counted, event.is_thought) + event.text.encode(), -1, -1
        tokens = np.asarray(event.tokens, dtype="<i4")
        figures = DONE.pack(FINISHED.index(event.reason), event.blocks, event.steps, len(tokens), event.seconds)
        return b"DONE", figures + _planes(tokens) + event.why.encode()[:MOST_END], -1, -1

    def _encode_step(self, event: StepFinished) -> bytes:
        argmax, candidates, following, entropy, accepted = self._sized(
            event.argmax_canvas, event.candidates, event.next_canvas, event.entropy, event.accepted_mask
        )
        tops, shares, count = b"", b"", 0
        if event.top_tokens is not None and event.top_probabilities is not None:
            top = np.asarray(event.top_tokens, dtype="<i4").T.copy()  # (K, C)
            share = np.asarray(event.top_probabilities, dtype="<f4").T
            count = len(top)
            if top.shape != (count, len(argmax)) or share.shape != top.shape or count > MOST_TOP:
                raise ValueError(f"top candidates of shape {top.T.shape} on a canvas of {len(argmax)}")
            top[:1] ^= argmax
            tops, shares = _planes(top), _planes(share)
        return b"".join(
            (
                STEP.pack(event.temperature, event.seconds, count, event.top_tokens is not None),
                _planes(argmax),
                _planes(candidates ^ argmax),
                _planes(following ^ candidates),
                _planes(entropy),
                _bits(accepted),
                tops,
                shares,
            )
        )

    def _sized(self, *arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Returns the arrays of an event, which have the length of one canvas."""
        length = len(arrays[0]) if self.has_shorter else self.length
        for array in arrays:
            if array.shape != (length,) or length > self.length:
                raise ValueError(f"an array of shape {array.shape} on a canvas of {self.length}")
        return arrays

    def _length(self, size: int, each: int, masks: int = 0) -> int:
        """Returns the length of a payload's canvas.

        Args:
            size: bytes of its arrays, of which a position has ``each``, and a bit of each of ``masks``.

        Raises:
            PayloadError: the canvas is longer than the run has any.
        """
        length = 8 * size // (8 * each + masks) if self.has_shorter else self.length
        if length > self.length:
            raise PayloadError("its canvas is too long")
        return length

    def decode(self, kind: bytes, payload: bytes, block: int, step: int) -> Event:
        """Returns the event of a payload. Its arrays are read-only.

        Raises:
            PayloadError: the payload is not of this kind.
        """
        reading = _Reading(payload, self.vocab_size)
        match kind:
            case b"PREF":
                prompt, reused, seconds = reading.figures(PREF)
                if not reused <= prompt <= MOST_ANSWER:
                    raise PayloadError("it contradicts itself")
                event: Event = PrefillFinished(prompt, reused, _figure(seconds))
            case b"CANV":
                length = reading.figures(LENGTH)[0] if self.has_shorter else self.length
                if length > self.length:
                    raise PayloadError("its canvas is too long")
                canvas, pinned = reading.tokens(length), reading.mask(length)
                event = CanvasStarted(block, canvas, pinned, None if reading.is_over else int(reading.tokens(1)[0]))
            case b"STEP":
                event = self._decode_step(reading, block, step)
            case b"PINS":
                number, pinned, written = reading.figures(PINS)
                length = self._length(reading.left, 4)
                if not written <= pinned <= length or number > length:
                    raise PayloadError("it contradicts itself")
                event = PrefixPinned(block, step, number, reading.tokens(length), pinned, written)
            case b"SLOT":
                event = _decode_slots(reading, block, self.options)
            case b"COMM":
                text_length, steps, reason = reading.figures(COMM)
                length = self._length(reading.left, 4)
                if text_length > length or steps > MOST_STEPS or reason > len(COMMITTED):
                    raise PayloadError("it contradicts itself")
                ended = COMMITTED[reason % len(COMMITTED)]
                event = CanvasCommitted(block, reading.tokens(length), text_length, steps, ended)
            case b"PART":
                counted, is_thought = reading.figures(PART)
                if counted > MOST_ANSWER or is_thought > 1:
                    raise PayloadError("it contradicts itself")
                event = TextArrived(reading.text(), bool(is_thought), counted)
            case _:
                reason, blocks, steps, count, seconds = reading.figures(DONE)
                if reason >= len(FINISHED) or blocks > MOST_BLOCKS or steps > MOST_RECORDS:
                    raise PayloadError("it contradicts itself")
                tokens, why = reading.tokens(count), reading.text()
                if len(why) > MOST_END:
                    raise PayloadError("it is too long")
                event = GenerationFinished(FINISHED[reason], tokens, blocks, steps, _figure(seconds), why)
        reading.end()
        return event

    def _decode_step(self, reading: _Reading, block: int, step: int) -> StepFinished:
        temperature, seconds, count, has_top = reading.figures(STEP)
        if count > MOST_TOP or has_top > 1 or (count and not has_top):
            raise PayloadError("it contradicts itself")
        length = self._length(reading.left, 16 + 8 * count, 1)
        argmax = reading.tokens(length)
        candidates = reading.tokens(length, argmax)
        following = reading.tokens(length, candidates)
        entropy = reading.reals(length)
        accepted = reading.mask(length)
        top_tokens = top_probabilities = None
        if has_top:
            likeliest = np.zeros((count, length), dtype=np.int32)
            likeliest[:1] = argmax
            top_tokens = _fixed(reading.tokens(likeliest.size, likeliest.ravel()).reshape(likeliest.shape).T)
            top_probabilities = _fixed(reading.reals(likeliest.size).reshape(likeliest.shape).T)
        return StepFinished(
            block,
            step,
            _figure(temperature),
            argmax,
            candidates,
            entropy,
            accepted,
            following,
            _figure(seconds),
            top_tokens,
            top_probabilities,
        )


def _encode_slots(event: SlotsRead) -> bytes:
    figures = zip(event.logprobs, event.argmax_is_label, strict=True)
    head = COUNT.pack(len(event.logprobs)) + b"".join(OPTIONS.pack(len(own), is_label) for own, is_label in figures)
    return head + _planes(np.concatenate(event.logprobs))


def _decode_slots(reading: _Reading, block: int, wanted: tuple[int, ...] | None) -> SlotsRead:
    (count,) = reading.figures(COUNT)
    figures = [reading.figures(OPTIONS) for _ in range(count)]
    if not 1 <= count <= MOST_QUESTIONS or any(not 2 <= n <= MOST_OPTIONS or said > 1 for n, said in figures):
        raise PayloadError("it contradicts itself")
    if wanted is not None and tuple(options for options, _ in figures) != wanted:
        raise PayloadError("it does not match the questions")
    whole = reading.reals(sum(options for options, _ in figures))
    if (whole > 0).any():
        raise PayloadError("it has a probability over 1")
    edges = np.cumsum([options for options, _ in figures])[:-1]
    return SlotsRead(block, tuple(map(_fixed, np.split(whole, edges))), tuple(bool(said) for _, said in figures))


class _Reading:
    """Reads the fields of a payload, once, in order."""

    def __init__(self, payload: bytes, vocab_size: int) -> None:
        self._payload, self._place, self._vocab_size = payload, 0, vocab_size

    def _take(self, count: int) -> bytes:
        taken = self._payload[self._place : self._place + count]
        if len(taken) != count:
            raise PayloadError("it is too short")
        self._place += count
        return taken

    def figures(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self._take(layout.size))

    def tokens(self, count: int, mixed_with: Tokens | None = None) -> Tokens:
        """Reads token ids (count,); ``mixed_with`` undoes an exclusive or."""
        words = _whole(self._take(4 * count), "<i4").astype(np.int32, copy=False)
        if mixed_with is not None:
            words = words ^ mixed_with
        if count and (words.min() < 0 or (self._vocab_size and words.max() >= self._vocab_size)):
            raise PayloadError("it has a token that is not in the vocabulary")
        return _fixed(words)

    def reals(self, count: int) -> NDArray[np.float32]:
        found = _whole(self._take(4 * count), "<f4").astype(np.float32, copy=False)
        if not (np.abs(found) <= MOST_NUMBER).all():  # False for NaN, too
            raise PayloadError("it has a number that is out of bounds")
        return _fixed(found)

    def mask(self, count: int) -> NDArray[np.bool_]:
        bits = np.frombuffer(self._take(-(-count // 8)), dtype=np.uint8)
        return _fixed(np.unpackbits(bits, count=count).astype(np.bool_))

    def text(self) -> str:
        """Reads the rest of the payload."""
        try:
            return self._take(self.left).decode()
        except UnicodeDecodeError:
            raise PayloadError("its text is not UTF-8") from None

    @property
    def left(self) -> int:
        """Bytes that are not read yet."""
        return len(self._payload) - self._place

    @property
    def is_over(self) -> bool:
        return not self.left

    def end(self) -> None:
        if not self.is_over:
            raise PayloadError("it is too long")


def _planes(words: NDArray[Any]) -> bytes:
    """Returns words of four bytes, little-endian, by planes."""
    kind = "<f4" if words.dtype.kind == "f" else "<i4"
    return np.ascontiguousarray(words, dtype=kind).view(np.uint8).reshape(-1, 4).T.tobytes()


def _whole(planes: bytes, kind: str) -> NDArray[Any]:
    """Returns the words that ``_planes`` encoded."""
    return np.ascontiguousarray(np.frombuffer(planes, dtype=np.uint8).reshape(4, -1).T).view(kind).ravel()


def _bits(mask: NDArray[np.bool_]) -> bytes:
    return np.packbits(mask).tobytes()


def _figure(value: float) -> float:
    if not abs(value) <= MOST_NUMBER:  # False for NaN, too
        raise PayloadError("it has a number that is out of bounds")
    return value


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    """Makes an array contiguous and read-only: readers share it."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array
