"""Runs that are recorded or made up for tests of traces, and the comparison of two runs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    Model,
    ModelIdentity,
    PrefillFinished,
    Reply,
    StepFinished,
    Trace,
    TraceFile,
    TraceHeader,
    TraceWriter,
    generate,
    identify_model,
    open_trace,
    read_reply,
)
from engine.trace.texts import PieceRecord


def read_whole(path: str | Path) -> TraceFile:
    """The trace, all of which can be read."""
    trace = open_trace(path)
    for head in trace._index.pieces:
        PieceRecord(trace._payload(head, trace._codec.most[b"PIEC"]))
    assert len(list(trace.events)) == len(trace.entries)
    assert trace.reply() is not None
    return trace


class StopAfter:
    """A cancel flag that is set once it was looked at so many times."""

    def __init__(self, looks: int | None) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        if self.looks is None:
            return False
        self.looks -= 1
        return self.looks < 0


def record(
    model: Model,
    prompt: str,
    path: Path,
    *,
    seed: int = 0,
    stop_after: int | None = None,
    fail_after: int | None = None,
    **changes: Any,
) -> Trace:
    """Run a model with its trace written to ``path`` and kept in memory; returns the latter.

    ``stop_after`` cancels after so many steps; ``fail_after`` breaks off after so many events, as an error would.
    """
    config = model.generation_defaults.replace(**{"top_k": 8, **changes})
    messages = ({"role": "user", "content": prompt},)
    ids = model.chat_ids(messages)
    header = TraceHeader(identify_model(model, model.name, "Small"), prompt, config, seed, messages, tuple(ids))
    texts = (model.tokenizer.piece, model.tokenizer.is_special, functools.partial(read_reply, model.tokenizer))
    trace = Trace(header=header, piece=texts[0], is_special=texts[1], decode=texts[2])
    with TraceWriter(path, header, *texts) as writer:
        for event in generate(model, ids, config, seed, StopAfter(stop_after)):
            trace.append(event)
            writer.append(event)
            if fail_after is not None and len(trace.events) == fail_after:
                trace.fail("The card fell out.")
                writer.close("The card fell out.")
                break
    return trace


def made_up(
    length: int = 6, blocks: int = 2, steps: int = 3, top: int | None = 3, vocabulary: int = 50, seed: int = 0
) -> Iterator[Event]:
    """A run that no model made."""
    draw = np.random.default_rng(seed)

    def tokens(*shape: int) -> Any:
        return draw.integers(0, vocabulary, shape or length).astype(np.int32)

    def reals(*shape: int) -> Any:
        return draw.exponential(1, shape or length).astype(np.float32)

    yield PrefillFinished(11, 3, 0.1 + 0.2)
    texts = []
    for block in range(blocks):
        yield CanvasStarted(block, tokens(), draw.random(length) < 0.3)
        for step in range(steps):
            tops = (None, None) if top is None else (tokens(length, top), reals(length, top))
            accepted = draw.random(length) < 0.5
            yield StepFinished(
                block, step, 0.8 / 3 * step, tokens(), tokens(), reals(), accepted, tokens(), 1e-3 / 7, *tops
            )
        texts.append(tokens())
        yield CanvasCommitted(block, texts[-1], length, steps, "step_cap")
    yield GenerationFinished("length", np.concatenate(texts), blocks, blocks * steps, 1 / 3)


def header(length: int = 6, vocabulary: int = 50, **fields: Any) -> TraceHeader:
    """The header of a run that no model made."""
    model = ModelIdentity("made-up", canvas_length=length, vocab_size=vocabulary)
    return TraceHeader(model, "prompt", GenerationConfig(eos_token_ids=()), 0, **fields)


def letters(tokens: Iterable[int]) -> Reply:
    """A tokenizer for them."""
    return Reply("".join(letter(int(token)) for token in tokens))


def letter(token: int) -> str:
    return f"[{token}]"


def is_tenth(token: int) -> bool:
    return token % 10 == 0


def write(path: Path, events: Iterable[Event], header: TraceHeader, failure: str = "") -> Path:
    """A file of a run that no model made."""
    with TraceWriter(path, header, letter, is_tenth, letters) as writer:
        for event in events:
            writer.append(event)
        writer.close(failure)
    return path


def bits(event: Event) -> list[Any]:
    """All of an event, down to the last bit and the kinds of its numbers."""
    found: list[Any] = [type(event)]
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name == "logprobs":  # an array of each question
            found.append((field.name, [_array_bits(one) for one in value]))
        elif isinstance(value, np.ndarray):
            found.append((field.name, *_array_bits(value)))
        else:
            found.append((field.name, type(value), value))
    return found


def _array_bits(value: NDArray[Any]) -> tuple[Any, ...]:
    return value.dtype, value.shape, value.flags.c_contiguous, value.tobytes()


def assert_same(found: Sequence[Event], expected: Sequence[Event]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert bits(one) == bits(other)
