"""Traces of runs without steps: the text as it came, whole, cut or damaged."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from engine.config import GenerationConfig
from engine.events import Event, GenerationFinished, PrefillFinished, TextArrived
from engine.text.reply import Reply
from engine.trace import ModelIdentity, Trace, TraceHeader, TraceWriter
from engine.trace.codec import Codec
from engine.trace.format import PayloadError
from engine.trace.index import Order
from tests.engine.traces import assert_same, read_whole

NOTHING = np.zeros(0, dtype=np.int32)
EVENTS: list[Event] = [
    TextArrived("Let me ", True, 2),
    TextArrived("see. ", True, 1),
    TextArrived("Grüße, ", False, 3),
    PrefillFinished(9, 4, 0.5),
    TextArrived("𝄞 and more", False, 0),
    TextArrived("", False, 5),
    GenerationFinished("eos", NOTHING, 0, 0, 1.25),
]


def write(path: Path, events: list[Event], failure: str = "") -> Trace:
    model = ModelIdentity("m", "M", "http://127.0.0.1:8000/v1#m")
    trace = Trace(header=TraceHeader(model, "Hello", GenerationConfig(), 3), decode=lambda _: Reply(""))
    with TraceWriter(path, trace.header, str, lambda _: False, lambda _: Reply("")) as file:
        for event in events:
            trace.append(event)
            file.append(event)
        file.close(failure)
    return trace


@pytest.mark.parametrize("failure", ["", "The connection broke off."])
def test_it_is_read_as_it_was_written(tmp_path: Path, failure: str) -> None:
    events = EVENTS[:-1] if failure else EVENTS
    trace = write(tmp_path / "a.sltrace", events, failure)
    trace.fail(failure)
    stored = read_whole(tmp_path / "a.sltrace")
    trace.save(tmp_path / "b.sltrace")
    again = read_whole(tmp_path / "b.sltrace")
    for other in (stored, again):
        assert_same(other.events, events)
        assert other.reply() == trace.reply() == Reply("Grüße, 𝄞 and more", "Let me see.")
        assert (other.failure, other.notice) == (failure, failure)
        assert (other.steps, other.committed) == ([], [])


def test_why_a_run_ended_is_kept_within_bounds(tmp_path: Path) -> None:
    why = "the answer can no longer follow its format: größer"
    events = [*EVENTS[:-1], dataclasses.replace(EVENTS[-1], reason="length", why=why)]
    write(tmp_path / "a.sltrace", events)
    read = read_whole(tmp_path / "a.sltrace")
    assert_same(read.events, events)
    kind, payload, *_ = Codec(0, 0).encode(EVENTS[-1])
    for more in (b"\xff", b"x" * 1_001):
        with pytest.raises(PayloadError):
            Codec(0, 0).decode(kind, payload + more, -1, -1)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\0\0\0\0\2\0\0\0x", b"\xff\xff\xff\xff\0\0\0\0x", b"\0\0\0\0\0\0\0\0\xff\xfe"],
)
def test_a_payload_that_is_none_is_refused(payload: bytes) -> None:
    with pytest.raises(PayloadError):
        Codec(0, 0).decode(b"PART", payload, -1, -1)


def test_text_and_blocks_do_not_mix() -> None:
    order = Order(is_fork=False)
    assert order.allows(b"CANV", 0, -1)
    assert not order.allows(b"PART", -1, -1)
    assert not Order(is_fork=False).allows(b"PART", 0, -1)
    order = Order(is_fork=False)
    assert order.allows(b"PART", -1, -1)
    assert not order.allows(b"CANV", 0, -1)
