"""Traces of decisions, and of runs that fit a format: whole, cut, damaged, made to harm; and earlier ones."""

from __future__ import annotations

import dataclasses
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import (
    Event,
    PrefixPinned,
    SlotsRead,
    Trace,
    TraceError,
    TraceHeader,
    open_trace,
)
from engine.service import RunAdvanced, RunEnded, RunStarted
from engine.service.wire import ReplyReader, ReplyWriter
from engine.trace.codec import COUNT, OPTIONS, Codec
from engine.trace.format import PayloadError, frame, opening
from tests.engine.task_runs import FORMAT, decided, decision_header, structured
from tests.engine.traces import assert_same, header, letter, letters, read_whole, write

PINS = struct.Struct("<III")

DECIDED = decision_header()
STRUCTURED = header(16, 50, output_format=FORMAT)
RUNS = {
    "a decision": (DECIDED, tuple(decided(DECIDED))),
    "a decision of a server": (
        dataclasses.replace(DECIDED, slots=()),
        (next(one for one in decided(DECIDED) if isinstance(one, SlotsRead)),),
    ),
    "a run that fits a format": (STRUCTURED, tuple(structured())),
}
both = pytest.mark.parametrize("name", RUNS)


@both
def test_a_run_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    head, events = RUNS[name]
    found = read_whole(write(tmp_path / "run.sltrace", events, head))
    assert_same(found.events, events)
    assert found.header == head
    assert [entry.kind for entry in found.entries].count("slots") == sum(isinstance(one, SlotsRead) for one in events)
    for event in found.events:
        for array in event.logprobs if isinstance(event, SlotsRead) else ():
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


@both
def test_a_file_cut_behind_any_event_is_good_up_to_there(name: str, tmp_path: Path) -> None:
    head, events = RUNS[name]
    for count in range(1, len(events) + 1):
        found = read_whole(write(tmp_path / f"{count}.sltrace", events[:count], head))
        assert_same(found.events, events[:count])
        live = Trace(header=head, piece=letter, decode=letters)
        for event in events[:count]:
            live.append(event)
        assert found.text == live.text  # what is pinned stands in a draft, too
        assert bool(found.notice) == (events[count - 1] is not events[-1] or isinstance(events[-1], SlotsRead))


@both
def test_another_safelight_gets_the_same(name: str) -> None:
    head, events = RUNS[name]
    writer, reader = ReplyWriter(), ReplyReader()
    data = writer.write(RunStarted("", Trace(header=head)))
    data += b"".join(writer.write(RunAdvanced("", event)) for event in events) + writer.write(RunEnded(""))
    own, *found = [part for at in range(0, len(data), 91) for part in reader.feed(data[at : at + 91])]
    assert own == head
    assert_same([part for part in found if isinstance(part, Event)], events)
    assert reader.is_over


def test_older_readers_pass_over_what_they_do_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "run.sltrace", structured(), STRUCTURED)
    whole = list(structured())
    monkeypatch.setattr(Codec, "most", {k: v for k, v in Codec.for_header(STRUCTURED).most.items() if k != b"PINS"})
    found = open_trace(path)
    assert_same(found.events, [event for event in whole if not isinstance(event, PrefixPinned)])
    assert found.notice == ""


EARLIER = Path(__file__).parents[2] / "fixtures" / "earlier_events"


@pytest.mark.parametrize(
    ("name", "steps", "gone"),
    [
        ("verified", 6, "verify"),  # read from left to right after steps 3, 5 and 6, with a decoder of thoughts
        ("tried", 5, "acceptance=margin, second_tries"),  # began again after step 3
        ("heads", 2, "head_steps"),  # a block ended with its first 6 tokens; a fork had set a margin
    ],
)
def test_events_of_earlier_versions_are_passed_over(name: str, steps: int, gone: str) -> None:
    found = read_whole(EARLIER / f"{name}.sltrace")
    assert found.notice == (f"It was made with settings that this Safelight does not have ({gone}), and is only shown.")
    assert len(found.steps) == steps
    assert found.result is not None
    assert sum(event.text_length for event in found.committed) == len(found.result.tokens)
    assert found.config.token_thoughts == (name == "verified")


# --- made to harm ----------------------------------------------------------------------------------------------------

READS = [event for event in RUNS["a decision"][1] if isinstance(event, SlotsRead)]
PINNED = [event for event in RUNS["a run that fits a format"][1] if isinstance(event, PrefixPinned)]


def slots(*figures: tuple[int, int], count: int | None = None, values: list[float] | None = None) -> bytes:
    """A SLOT payload: options and whether the argmax is a label, of each question."""
    numbers = [-1.0] * sum(options for options, _ in figures) if values is None else values
    planes = np.array(numbers, dtype="<f4").view(np.uint8).reshape(-1, 4).T.tobytes()
    head = COUNT.pack(len(figures) if count is None else count)
    return head + b"".join(OPTIONS.pack(*one) for one in figures) + planes


RIGHT = ((2, 1), (3, 1), (4, 0))
WRONG_SLOTS = {
    "none": slots(count=0),
    "another question's options": slots((3, 1), (2, 1), (4, 0)),
    "neither true nor false": slots((2, 2), *RIGHT[1:]),
    "a probability over 1": slots(*RIGHT, values=[0.5] + [-1.0] * 8),
    "too long": slots(*RIGHT) + b"x",
}


@pytest.mark.parametrize("name", WRONG_SLOTS)
def test_a_read_goes_with_the_questions(name: str) -> None:
    codec = Codec.for_header(DECIDED)
    assert isinstance(codec.decode(b"SLOT", slots(*RIGHT), 0, -1), SlotsRead)
    with pytest.raises(PayloadError):
        codec.decode(b"SLOT", WRONG_SLOTS[name], 0, -1)
    with pytest.raises(PayloadError, match="questions"):
        Codec.for_header(STRUCTURED).decode(b"SLOT", slots(*RIGHT), 0, -1)


def test_pins_are_within_the_canvas() -> None:
    codec = Codec.for_header(STRUCTURED)
    _, good, *_ = codec.encode(PINNED[1])
    for number, pinned, written in ((0, 17, 0), (0, 3, 4), (17, 3, 1), (2**32 - 1, 0, 0)):
        with pytest.raises(PayloadError, match="contradicts"):
            codec.decode(b"PINS", PINS.pack(number, pinned, written) + good[PINS.size :], 0, 1)
    for payload in (good[:-1], good + b"x", good[: PINS.size] + struct.pack("<i", -1) * 16):
        with pytest.raises(PayloadError):
            codec.decode(b"PINS", payload, 0, 1)


ORDERS: dict[str, tuple[str, tuple[int, ...], int]] = {  # which events, and how many of them are good
    "twice between two steps": ("a run that fits a format", (0, 1, 2, 2, 3), 3),
    "of another step": ("a run that fits a format", (0, 1, 4, 3), 2),
    "before its canvas": ("a run that fits a format", (0, 2, 1), 1),
    "read before its step": ("a decision", (0, 1, 3), 2),
    "read behind its block": ("a decision", (0, 1, 2, 4, 3), 4),
    "another block's read": ("a decision", (0, 1, 2, 7), 3),
}


@pytest.mark.parametrize("name", ORDERS)
def test_out_of_its_order_it_ends_the_file(name: str, tmp_path: Path) -> None:
    run, places, good = ORDERS[name]
    head, events = RUNS[run]
    found = open_trace(write(tmp_path / "run.sltrace", [events[place] for place in places], head))
    assert len(found.entries) == good
    assert found.notice.startswith("The trace is damaged")


def raw(head: TraceHeader = DECIDED, **changes: Any) -> dict[str, Any]:
    return {**json.loads(head.to_bytes()), **changes}


SLOTS = raw()["slots"]
WRONG_HEADERS = {
    "a slot behind the canvas": raw(slots=[{**SLOTS[0], "position": 16}, *SLOTS[1:]]),
    "a label without tokens": raw(slots=[{**SLOTS[0], "labels": [[], *SLOTS[0]["labels"][1:]]}, *SLOTS[1:]]),
    "fewer slots than questions": raw(slots=SLOTS[:1]),
    "a format of no kind": raw(STRUCTURED, output_format={"kind": "poem"}),
}


@pytest.mark.parametrize("name", WRONG_HEADERS)
def test_a_header_that_asks_for_nonsense_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sltrace"
    path.write_bytes(opening() + frame(b"HEAD", json.dumps(WRONG_HEADERS[name]).encode()))
    with pytest.raises(TraceError, match="is damaged at its beginning"):
        open_trace(path)
