"""Writes a run as JSON and reads it back, without loss of recorded data. Knows no Qt.

The file, version 1, is one object with these parts, in this order:

* ``format`` "safelight-run" and ``version`` 1;
* ``header``: the model, all fields of ``GenerationConfig`` as ``config``, the seed, the time of creation and the run
  that it was forked from. ``prompt``, ``messages`` and ``prompt_ids`` are empty if the prompt is not exported. The
  model's folder is never in it;
* ``events``, one a line, each with its ``kind`` (the class in ``engine.events``) and all of that event's fields. Arrays
  are lists by position, two-dimensional ones lists of lists; masks are 0 and 1. The answers of a decision are lists by
  question, of its options' log-probabilities. Entropies are in nats, times in seconds. Numbers are the shortest that
  read back as the same 32-bit value; numbers that are not finite are strings;
* ``text`` and ``thinking``, the final answer, and ``failure``, the error that ended the run early;
* ``pieces``, the text of every token in ``events``, by its number, and ``special``, the control tokens.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from app.export.options import Options
from app.export.run import Share, header_of
from engine import (
    CanvasCommitted,
    CanvasStarted,
    CanvasVerified,
    Event,
    GenerationFinished,
    PrefillFinished,
    PrefixPinned,
    Recording,
    Reply,
    SafelightError,
    SlotsRead,
    StepFinished,
    TextArrived,
    Trace,
    TraceHeader,
    TryEnded,
)
from engine.errors import quoted
from engine.files import parse_json, read_text, replacing
from engine.trace import Draft
from engine.trace.codec import Codec
from engine.trace.format import MOST_TOKENS, RecordBudget
from engine.trace.index import Order
from engine.trace.texts import tokens_of

FORMAT = "safelight-run"
VERSION = 1
MOST_BYTES = 64 * 2**20  # of a file to read; for longer runs there is the trace
MOST_VALUES = 4_000_000
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        PrefillFinished,
        CanvasStarted,
        StepFinished,
        PrefixPinned,
        CanvasVerified,
        TryEnded,
        SlotsRead,
        CanvasCommitted,
        TextArrived,
        GenerationFinished,
    )
}
MASKS = {"pinned_mask", "accepted_mask", "doubtful"}
FLOATS = {"entropy", "top_probabilities", "probabilities"}
LABELS: dict[str, Callable[[Any], Any]] = {  # fields with one item per question
    "logprobs": lambda value: np.array(_floats(value), dtype=np.float32),
    "argmax_is_label": bool,
}


def write(run: Recording, path: Path, options: Options) -> Share:
    """Writes a run; yields the share done. Without the prompt, everything that was asked is left out.

    Raises:
        SafelightError: the file cannot be written.
    """
    with replacing(path) as unfinished, unfinished.open("w", encoding="ascii", newline="\n") as file:
        head: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "header": json.loads(header_of(run, prompt=options.prompt).to_json()),
        }
        file.write("{\n")
        _write_parts(file, head)
        tokens: set[int] = set()
        yield from _write_events(file, run, tokens)
        reply, ordered = run.reply(), sorted(tokens)
        tail: dict[str, Any] = {
            "text": reply.text,
            "thinking": reply.thinking,
            "failure": run.failure,
        }
        tail |= {"pieces": {str(token): run.piece(token) for token in ordered}}
        _write_parts(file, tail)
        file.write(f'"special": {json.dumps([token for token in ordered if run.is_special(token)])}\n}}\n')
    yield 1.0
    return ""


def _write_parts(file: TextIO, parts: dict[str, Any]) -> None:
    for name, value in parts.items():
        file.write(f"{json.dumps(name)}: {json.dumps(value)},\n")


def _write_events(file: TextIO, run: Recording, tokens: set[int]) -> Iterator[float]:
    file.write('"events": [')
    total = len(run.events)
    for place, event in enumerate(run.events):
        file.write(",\n" if place else "\n")
        file.write(json.dumps(_event(event, tokens), allow_nan=False, separators=(",", ":")))
        yield (place + 1) / (total + 1)
    file.write("\n],\n")


def _event(event: Event, tokens: set[int]) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": type(event).__name__}
    for each in dataclasses.fields(event):
        value = getattr(event, each.name)
        if isinstance(value, np.ndarray) and value.dtype == np.bool_:
            record[each.name] = value.astype(int).tolist()
        elif isinstance(value, np.ndarray) and value.dtype == np.float32:
            record[each.name] = _shortest(value)
        elif isinstance(value, np.ndarray):
            record[each.name] = value.tolist()
            tokens.update(np.unique(value).tolist())
        elif isinstance(value, tuple):
            record[each.name] = [_shortest(one) if isinstance(one, np.ndarray) else int(one) for one in value]
        else:
            record[each.name] = _finite(value) if isinstance(value, float) else value
    return record


def _shortest(values: NDArray[np.float32]) -> list[Any]:
    if values.ndim > 1:
        return [_shortest(row) for row in values]
    return [_finite(float(text)) for text in values.astype(str).tolist()]


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def read(path: Path) -> Trace:
    """Reads a run from its JSON file into memory.

    Raises:
            SafelightError: the file cannot be read, is damaged, or is from another program or version of Safelight.
    """
    raw = parse_json(read_text(path, MOST_BYTES), str(path), values=MOST_VALUES, surrogates=True)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise SafelightError(f"{path.name} is not a run of Safelight's. Choose a run that Safelight exported")
    version = raw.get("version")
    if version != VERSION:
        raise SafelightError(f"{path.name} is of another version of Safelight ({quoted(version)}). Update Safelight")
    try:
        return _run(raw)
    except Exception as fault:  # an untrusted file can cause any error
        raise SafelightError(f"{path.name} is damaged ({quoted(str(fault), 200)}). Export the run again") from None


def _run(raw: dict[str, Any]) -> Trace:
    header, _unknown = TraceHeader.from_json(json.dumps(raw["header"]).encode())
    pieces = {int(token): str(piece) for token, piece in raw["pieces"].items()}
    special = frozenset(int(token) for token in raw["special"])
    events = [_read_event(item) for item in raw["events"]]
    _check(events, header)
    whole = Draft.from_events(events, header.config.eos_token_ids).tokens()
    reply = Reply(str(raw["text"]), str(raw["thinking"]))

    def decode(tokens: Iterable[int]) -> Reply:
        read = list(tokens)
        if read == whole:
            return reply
        return Reply("".join(pieces.get(token, f"<{token}>") for token in read if token not in special))

    trace = Trace(
        header=header,
        piece=lambda token: pieces.get(token, f"<{token}>"),
        is_special=special.__contains__,
        decode=decode,
    )
    for event in events:
        trace.append(event)
    if raw["failure"]:
        trace.fail(str(raw["failure"]))
    return trace


def _check(events: Sequence[Event], header: TraceHeader) -> None:
    """Raises ValueError if events are not a run: wrong order, wrong shape or a token outside the vocabulary."""
    first = next((event for event in events if isinstance(event, CanvasStarted)), None)
    length = header.canvas_length or (0 if first is None else len(first.canvas))
    codec, order, budget = Codec.for_header(header), Order(header.parent is not None), RecordBudget()
    codec = dataclasses.replace(codec, length=length)
    for event in events:
        kind, payload, block, step = codec.encode(event)
        if order.is_over or not (order.allows(kind, block, step) and budget.allows(kind, len(payload), block, step)):
            raise ValueError("its events are in no order that a run has")
        if isinstance(event, CanvasCommitted) and event.text_length > len(event.tokens):
            raise ValueError("its text is longer than its canvas")
        if isinstance(event, CanvasStarted | PrefixPinned | CanvasVerified | TryEnded | SlotsRead):
            codec.decode(kind, payload, block, step)  # validates the values
        for tokens in tokens_of(event):
            if tokens.size and not 0 <= int(tokens.min()) <= int(tokens.max()) < (codec.vocab_size or MOST_TOKENS):
                raise ValueError("it has a token that is not in the vocabulary")


def _read_event(raw: dict[str, Any]) -> Event:
    kind = KINDS[raw["kind"]]
    values: dict[str, Any] = {}
    for each in dataclasses.fields(kind):
        if each.name not in raw and each.default is not dataclasses.MISSING:  # written by an older version
            continue
        value = raw[each.name]
        if each.name in LABELS:
            values[each.name] = tuple(LABELS[each.name](one) for one in value)
        elif isinstance(value, list):
            values[each.name] = _array(each.name, value)
        else:
            values[each.name] = float(value) if each.type == "float" else value
    event: Event = kind(**values)
    return event


def _array(name: str, value: list[Any]) -> NDArray[Any]:
    if name in MASKS:
        return np.array(value, dtype=np.bool_)
    if name in FLOATS:
        return np.array(_floats(value), dtype=np.float32)
    return np.array(value, dtype=np.int32)


def _floats(value: Any) -> Any:
    return [_floats(item) for item in value] if isinstance(value, list) else float(value)
