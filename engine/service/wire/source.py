"""A recorded run that is continued, as JSON: its header and the canvases it committed, without their steps.

    {"header": …, "committed": [{"tokens": [C], "text_length": …, "steps": …, "reason": "converged" | "step_cap"}, …]}

The header is that of the trace file (``engine.trace.header``), the list in order from block 0. The receiver makes a
recording in which each of these blocks is there at once, without its steps, which the sender has.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from engine.errors import SafelightError
from engine.events import CanvasCommitted, CanvasStarted
from engine.service.wire.fields import fields, items, reading, tokens, whole
from engine.service.wire.pictures import FindPicture, none_sent, shown_in
from engine.trace.codec import COMMITTED
from engine.trace.format import MOST_ANSWER, MOST_BLOCKS, MOST_HEADER, MOST_POSITIONS, MOST_STEPS
from engine.trace.header import TraceHeader
from engine.trace.live import Trace
from engine.trace.recording import Recording

_FIELDS = ("tokens", "text_length", "steps", "reason")


def source_to_json(source: Recording) -> dict[str, Any]:
    """Returns the part of a run that is needed to continue it, as JSON.

    Raises:
        SafelightError: its first blocks are not in the recording.
    """
    committed = source.committed
    if [event.block_index for event in committed] != list(range(len(committed))):
        raise SafelightError("this run was recorded without its first blocks; it cannot be gone on from elsewhere")
    blocks = [
        {"tokens": event.tokens.tolist(), **{name: getattr(event, name) for name in _FIELDS[1:]}} for event in committed
    ]
    return {"header": json.loads(source.header.to_json()), "committed": blocks}


def source_from_json(raw: Any, find: FindPicture = none_sent) -> Trace:
    """Returns a recording of the committed blocks.

    Raises:
        SafelightError: it is no recorded run, or shows a missing picture.
    """
    raw = fields(raw, "the source", ("header", "committed"), ("header", "committed"))
    header = _header(raw["header"])
    length, vocabulary = header.canvas_length, header.model.vocab_size
    blocks = [_committed(block, place) for place, block in enumerate(items(raw, "committed", MOST_BLOCKS))]
    if sum(len(event.tokens) for event in blocks) > MOST_ANSWER:
        raise SafelightError(f"the source has more than {MOST_ANSWER:,} tokens, the most that a run has")
    trace = Trace(header=header, pictures=shown_in(header.messages, find))
    for event in blocks:
        if len(event.tokens) != length or not 0 <= event.text_length <= length:
            raise SafelightError(f"the source has a canvas that is not of {length} tokens, as its header says")
        if vocabulary and event.tokens.max(initial=0) >= vocabulary:
            raise SafelightError(f"the source has a token that is not in its vocabulary of {vocabulary}")
        trace.append(CanvasStarted(event.block_index, event.tokens, np.zeros(length, dtype=np.bool_)))
        trace.append(event)
    return trace


def _header(raw: Any) -> TraceHeader:
    payload = json.dumps(raw).encode()
    if len(payload) > MOST_HEADER:
        raise SafelightError(f"the source's header has more than {MOST_HEADER:,} bytes; shorten the conversation")
    with reading("the source's header"):
        header, unknown = TraceHeader.from_json(payload)
    if unknown:
        raise SafelightError(
            f"the source was made with settings that are not known here ({', '.join(unknown)[:200]}); update Safelight"
        )
    return header


def _committed(raw: Any, place: int) -> CanvasCommitted:
    raw = fields(raw, "a committed canvas", _FIELDS, _FIELDS)
    if raw["reason"] not in COMMITTED:
        raise SafelightError(f"a committed canvas's reason must be one of: {', '.join(COMMITTED)}")
    return CanvasCommitted(
        place,
        np.array(tokens(raw, "tokens", MOST_POSITIONS), dtype=np.int32),
        whole(raw, "text_length", 0, MOST_POSITIONS),
        whole(raw, "steps", 0, MOST_STEPS),
        raw["reason"],
    )
