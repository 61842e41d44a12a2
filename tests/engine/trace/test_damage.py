"""Traces that are cut, damaged, foreign, newer or made to harm: a sentence or a readable beginning."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import (
    Event,
    Fork,
    GenerationFinished,
    PrefillFinished,
    TraceError,
    TraceFile,
    TraceWriter,
    gallery,
    open_trace,
)
from engine.trace.codec import Codec
from engine.trace.folder import GALLERY
from engine.trace.format import HEAD, OPENING, VERSION, PayloadError, frame, opening
from tests.engine.task_runs import structured
from tests.engine.traces import assert_same, bits, header, is_tenth, letter, letters, made_up, read_whole, write

COMM, STEP = struct.Struct("<III"), struct.Struct("<ddHH")
COUNTING = GALLERY / "count.sltrace"  # a real run of three blocks
LENGTH, VOCABULARY = 6, 50
Opened = Callable[..., TraceFile]


def boundaries(data: bytes) -> list[int]:
    """Returns the place of each record, and the file's end."""
    places, place = [], OPENING.size
    while place < len(data):
        places.append(place)
        place += HEAD.size + HEAD.unpack_from(data, place)[1]
    return [*places, place]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens a trace of some bytes."""
    path, traces = tmp_path / "run.sltrace", []

    def open_bytes(data: bytes) -> TraceFile:
        path.write_bytes(data)
        traces.append(open_trace(path))
        return traces[-1]

    yield open_bytes
    for trace in traces:
        trace.close()


# --- cut -------------------------------------------------------------------------------------------------------------


def test_a_trace_cut_anywhere_is_read_up_to_there(opened: Opened) -> None:
    whole = COUNTING.read_bytes()
    expected = open_trace(COUNTING).events
    places = boundaries(whole)
    cuts = {cut for place in places for cut in (place - 1, place, place + 1, place + HEAD.size, place + 40)}
    for cut in sorted(cut for cut in cuts | set(range(0, len(whole), 501)) if cut < len(whole)):
        if cut < places[1]:
            with pytest.raises(TraceError, match=r"cut off at its beginning|not a Safelight trace"):
                opened(whole[:cut])
            continue
        found = opened(whole[:cut])
        ends = [place for place in places if place <= cut]
        assert_same(found.events, expected[: len(found.entries)])
        assert found.notice.startswith("The recording stops" if cut in ends else "The trace is cut off")
        assert found.reply() is not None
        assert len(found.entries) < len(expected)
    assert opened(whole).notice == ""


def test_a_notice_says_how_far_the_run_can_be_followed(opened: Opened) -> None:
    whole = COUNTING.read_bytes()
    head = HEAD.unpack_from(whole, boundaries(whole)[-4])  # PIEC or TEXT before the last block's commit, and that
    found = opened(whole[: boundaries(whole)[-4] + 3])
    assert head[0] in (b"COMM", b"TEXT")
    assert found.notice == "The trace is cut off; it can be followed up to step 2 of block 3."
    assert found.text.startswith("4, 5, 6, 7")


# --- damaged ---------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_is_found_wherever_it_is(opened: Opened) -> None:
    whole = next(one.path for one in gallery() if one.path.stem == "reverse").read_bytes()
    expected = [bits(event) for event in opened(whole).events]
    draw = random.Random(4)
    heads = [place + byte for place in boundaries(whole)[:-1] for byte in range(HEAD.size)]
    for place in (*range(OPENING.size), *heads, *range(OPENING.size, len(whole), 193)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draw.randrange(8)
        try:
            lazy = opened(bytes(damaged))
        except TraceError:
            assert place < boundaries(whole)[1]  # the header
            continue
        if not lazy.notice.startswith(("The trace is damaged", "The trace is cut off")):
            with pytest.raises((TraceError, PayloadError)):
                read_whole(lazy.path)
        for index in range(len(lazy.entries)):
            with suppress(TraceError):
                assert bits(lazy.event(index)) == expected[index]
        for token in range(130):
            assert lazy.piece(token)


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"\x89PNG\r\n\x1a\n" + bytes(100), b"PK\x03\x04" + bytes(100), bytes(5000), b"{}\n"],
    ids=["empty", "text", "picture", "archive", "zeros", "json"],
)
def test_a_foreign_file_is_distinguished_from_a_trace(opened: Opened, data: bytes) -> None:
    with pytest.raises(TraceError, match=r"run\.sltrace is not a Safelight trace$"):
        opened(data)


def test_a_newer_format_asks_for_an_update(opened: Opened) -> None:
    begin = struct.pack("<8sI", opening()[:8], VERSION + 1)
    newer = begin + struct.pack("<I", zlib.crc32(begin)) + COUNTING.read_bytes()[OPENING.size :]
    with pytest.raises(TraceError, match=rf"newer Safelight \(format {VERSION + 1}, this one reads {VERSION}\)"):
        opened(newer)


@pytest.mark.parametrize("name", ["", "missing.sltrace", "\0", "pipe.sltrace"])
def test_a_place_without_a_file_is_named_and_a_pipe_not_waited_for(name: str, tmp_path: Path) -> None:
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.sltrace")
    with pytest.raises(TraceError, match=r"cannot be opened|is not a regular file"):
        open_trace(tmp_path / name)


# --- made to harm ----------------------------------------------------------------------------------------------------


@contextmanager
def little_memory() -> Iterator[None]:
    """Asserts that 8 MiB at most are allocated inside."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


def raw_header(**changes: Any) -> dict[str, Any]:
    """A header's JSON with some fields changed; ``...`` leaves one out. Those of an object are changed within it."""
    raw = json.loads(header(LENGTH, VOCABULARY).to_bytes())
    made = {name: raw[name] | new if name in ("model", "config") else new for name, new in changes.items()}
    return {name: value for name, value in (raw | made).items() if value is not ...}


def built(*records: bytes, head: bytes | None = None, **changes: Any) -> bytes:
    """A file of these records, each with right checksums, and of a header with these changes."""
    return opening() + frame(b"HEAD", head or json.dumps(raw_header(**changes)).encode()) + b"".join(records)


HEADERS: dict[str, bytes | dict[str, Any]] = {
    "no json": b"\xff\xfe",
    "too deep": b"[" * 100_000,
    "no id": {"id": ...},
    "an id that is a path": {"id": "../../../../../../etc/passwd\0....."},
    "a huge canvas": {"model": {"canvas_length": 10**9}},
    "settings out of range": {"config": {"max_denoising_steps": -4}},
    "pins behind any canvas": {"config": {"pinned": [[10**6, 4]]}},
    "changes that are none": {"changes": [{"block": "x"}]},
    "marks behind any block": {"marks": [{"block": 10**9, "start": 3, "stop": 4}]},
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_is_none_is_refused(opened: Opened, name: str) -> None:
    head = HEADERS[name]
    with pytest.raises(TraceError, match="is damaged at its beginning"):
        opened(built(head=head) if isinstance(head, bytes) else built(**head))


def test_a_header_with_more_than_is_known_is_read(opened: Opened) -> None:
    found = opened(built(mood="good", config={"zeal": 3, "ardour": 4}, prompt="\ud800 lone"))
    assert "settings that this Safelight does not have (ardour, zeal)" in found.notice
    assert found.prompt.encode() == "\N{REPLACEMENT CHARACTER} lone".encode()


def test_a_setting_that_is_gone_and_changed_nothing_is_no_news(opened: Opened) -> None:
    """Nor is a value that the model's files say now: its schedule, and whether it pads gaps."""
    usual = {"window": 16, "distance_penalty": 0.02, "choice_temperature": 0.0, "block_cache": "", "edit_passes": 16}
    usual |= {"sub_block": 8, "schedule": "floor", "gap_padding": True}
    assert "settings" not in opened(built(config=usual)).notice
    assert "(block_cache, window)" in opened(built(config=usual | {"block_cache": "dual", "window": 4})).notice


def test_a_first_canvas_of_an_earlier_version_is_a_change_at_the_first_step(opened: Opened) -> None:
    found = opened(built(config={"seed_canvas": [7] * LENGTH}))
    assert "settings" not in found.notice
    assert found.header.changes[0] == Fork(0, 0, edits=tuple((place, 7) for place in range(LENGTH)))
    assert found.config.canvas_length == LENGTH


@pytest.mark.parametrize("length", [14, 15, 16, 17, 40])
def test_canvases_of_any_length_say_it_themselves(length: int) -> None:
    codec, small = (Codec(most, VOCABULARY, has_shorter=True) for most in (40, length - 1))
    for event in [*made_up(length, vocabulary=VOCABULARY, top=2), *structured(length, VOCABULARY)]:
        assert bits(codec.decode(*codec.encode(event))) == bits(event)
        if isinstance(event, PrefillFinished | GenerationFinished):
            continue
        with pytest.raises(PayloadError, match="its canvas is too long"):
            small.decode(*codec.encode(event))
        with pytest.raises(ValueError, match="on a canvas of"):
            small.encode(event)
        kind, payload, *place = codec.encode(event)
        with pytest.raises(PayloadError):
            codec.decode(kind, payload[:-1], *place)


def test_records_of_a_kind_unknown_are_skipped(opened: Opened) -> None:
    codec = Codec(LENGTH, VOCABULARY)
    records = []
    for event in made_up(LENGTH, vocabulary=VOCABULARY):
        kind, payload, block, step = codec.encode(event)
        records += [frame(b"NEWS", b"from the future"), frame(kind, payload, block, step)]
    found = opened(built(*records))
    assert_same(found.events, list(made_up(LENGTH, vocabulary=VOCABULARY)))
    assert found.notice == ""


def stored(event: Event, place: int = 0, patch: bytes = b"", **changes: Any) -> bytes:
    """An event's record, with changes to its arrays or figures, or to the bytes of its payload from a place on."""
    kind, payload, block, step = Codec(LENGTH, 0).encode(dataclasses.replace(event, **changes))
    return frame(kind, payload[:place] + patch + payload[place + len(patch) :], block, step)


PREFILL, CANVAS, FIRST, SECOND, _THIRD, COMMIT, *_REST, END = made_up(LENGTH, vocabulary=VOCABULARY)


def lying(payload: bytes, size: int) -> bytes:
    """A step whose head says another size than it has, with right checksums."""
    head = struct.pack("<4sIIiiI", b"STEP", len(payload), size, 0, 0, zlib.crc32(payload))
    return head + struct.pack("<I", zlib.crc32(head)) + payload


BOMB = zlib.compress(bytes(200 * 2**20), 1)  # 200 MB in 1 MB
STEPS = {
    "a token that is in no vocabulary": stored(FIRST, argmax_canvas=np.full(LENGTH, VOCABULARY, np.int32)),
    "an entropy that is no number": stored(FIRST, entropy=np.full(LENGTH, np.nan, np.float32)),
    "more candidates than there are": stored(FIRST, STEP.size - 4, struct.pack("<H", 60)),
    "nothing": frame(b"STEP", b"", 0, 0),
    "no zlib": lying(b"not packed at all", 100),
    "a bomb": lying(BOMB, 300),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_is_none_is_refused_when_it_is_read(opened: Opened, name: str) -> None:
    data = built(stored(PREFILL), stored(CANVAS), STEPS[name], stored(SECOND), stored(COMMIT))
    lazy = opened(data)
    assert len(lazy.entries) == 5
    with little_memory(), pytest.raises(TraceError, match=r"is damaged at step 1 of block 1: it "):
        lazy.event(2)
    assert_same(lazy.events[3:4], [SECOND])
    assert_same(lazy.events[:2], [PREFILL, CANVAS])


CLAIMS = {
    "a bomb that says so": lying(BOMB, 200 * 2**20),
    "a payload without bounds": lying(bytes(20 * 2**20), 300),
    "a step behind all that a block may take": stored(FIRST, step=10_000),
    "a block behind all that a run may have": stored(CANVAS, block_index=2**30),
    "a text before a step": frame(b"TEXT", b'{"text": [0, ""], "thinking": [0, ""]}', 0) + stored(FIRST),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_head_that_claims_what_cannot_be_ends_the_trace(opened: Opened, name: str) -> None:
    data = built(stored(PREFILL), stored(CANVAS), CLAIMS[name], stored(FIRST), stored(SECOND))
    with little_memory():
        found = opened(data)
    assert_same(found.events, [PREFILL, CANVAS])
    assert found.notice == "The trace is damaged; it can be followed up to the beginning of block 1."


OTHERS = {
    "a text longer than its canvas": (3, stored(COMMIT, 0, struct.pack("<I", LENGTH + 1))),
    "a reason of no kind": (3, stored(COMMIT, COMM.size - 4, struct.pack("<I", 4))),
    "an end for no reason": (4, stored(END, 0, struct.pack("<I", 3))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_events_that_are_none_are_refused_too(opened: Opened, name: str) -> None:
    place, record = OTHERS[name]
    records = [stored(CANVAS), stored(FIRST), stored(SECOND), stored(COMMIT), stored(END)]
    records[place] = record
    trace = opened(built(*records))
    with little_memory(), pytest.raises(TraceError, match="is damaged at the end of"):
        trace.event(place)


ORDERS = {
    "a step without a canvas": [FIRST],
    "a step of another block": [CANVAS, dataclasses.replace(FIRST, block_index=1)],
    "a step left out": [CANVAS, SECOND],
    "a prompt in the middle": [CANVAS, PREFILL],
    "more behind the end": [CANVAS, FIRST, COMMIT, END, dataclasses.replace(CANVAS, block_index=1)],
}


@pytest.mark.parametrize("name", ORDERS)
def test_events_out_of_order_end_the_trace(opened: Opened, name: str) -> None:
    events = ORDERS[name]
    found = opened(built(*(stored(event) for event in events)))
    assert_same(found.events, events[:-1])
    assert found.notice.startswith("The trace is damaged")


def test_texts_that_are_none_leave_numbers(opened: Opened) -> None:
    trace = opened(built(frame(b"PIEC", b""), stored(CANVAS), stored(FIRST)))
    assert (trace.piece(9), trace.is_special(9)) == ("<9>", False)
    assert_same(trace.events, [CANVAS, FIRST])


@pytest.mark.parametrize(("bound", "most"), [("MAX_TEXTS", 30), ("MAX_PIECES", 1), ("MAX_UNPACKED", 30)])
def test_texts_by_the_gigabyte_are_not_kept(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(f"engine.trace.format.{bound}", most)
    one, other = (frame(b"PIEC", struct.pack("<IIBH", 1, token, 0, 9) + b"some text") for token in (8, 9))
    trace = opened(built(one, other, stored(CANVAS)))
    assert (trace.piece(9), trace.piece(8)) == ("<9>", "some text")
    assert trace.notice == "The trace is damaged; nothing is left of the run."


@pytest.mark.parametrize(
    "payload",
    [b"", b"{}", b'{"text": [5, "a"], "thinking": [0, ""]}', b'{"text": [0, 3]}'],
)
def test_an_answer_that_is_none_is_refused(opened: Opened, payload: bytes) -> None:
    data = built(stored(CANVAS), stored(FIRST), frame(b"TEXT", payload, 0), stored(COMMIT))
    with pytest.raises(TraceError, match=r"the text in .* cannot be read"):
        opened(data).reply(0)


def test_a_repeated_answer_takes_its_room_once(opened: Opened) -> None:
    blocks, long = [], "a" * 2**18
    for block in range(50):
        canvas, step, commit = (dataclasses.replace(event, block_index=block) for event in (CANVAS, FIRST, COMMIT))
        text = json.dumps({"text": [len(long), ""] if block else [0, long], "thinking": [0, ""]})
        blocks += [stored(canvas), stored(step), frame(b"TEXT", text.encode(), block), stored(commit)]
    found = opened(built(*blocks))
    for read in (lambda: found.reply(49).text, lambda: found.text):
        with little_memory():
            assert read() == long


def test_a_commit_without_its_text_says_so(opened: Opened) -> None:
    found = opened(built(stored(CANVAS), stored(FIRST), stored(COMMIT)))
    with pytest.raises(TraceError, match="that of block 0 is missing"):
        found.reply(0)


def test_records_without_end_are_not_counted(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.trace.format.MAX_RECORDS", 20)
    found = opened(built(*[frame(b"NONE", b"")] * 50))
    assert found.notice == "The trace is damaged; nothing is left of the run."


# --- a crash, a full disk --------------------------------------------------------------------------------------------

CHILD = """
import sys, time
from engine import TraceWriter, gallery, open_trace
source = open_trace(next(one.path for one in gallery() if one.path.stem == "sudoku-stuck"))
writer = TraceWriter(sys.argv[1], source.header, source.piece, source.is_special, lambda tokens: source.reply())
for event in source.events[:30]:
    writer.append(event)
print("written", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_a_killed_writer_leaves_all_it_wrote(tmp_path: Path) -> None:
    source = open_trace(next(one.path for one in gallery() if one.path.stem == "sudoku-stuck"))
    path = tmp_path / "run.sltrace"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "written\n"
        os.kill(child.pid, signal.SIGKILL)
    found = read_whole(path)
    assert_same(found.events, source.events[:30])
    assert found.notice == "The recording stops before the run's end; it can be followed up to step 28 of block 1."


def written_until(path: Path, events: list[Event], length: int, message: str, stop: Callable[[], object]) -> None:
    """Asserts that all is kept until a writer refuses to go on; ``stop`` is called once it is open."""
    written: list[Event] = []

    def write_all() -> None:
        for event in events:
            writer.append(event)
            written.append(event)

    with TraceWriter(path, header(length), letter, is_tenth, letters) as writer:
        stop()
        with pytest.raises(TraceError, match=message):
            write_all()
    assert 2 < len(written) < len(events)
    found = read_whole(path)
    assert_same(found.events, written)
    assert found.notice.startswith("The recording stops before the run's end")


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit for a file's size")
def test_a_full_disk_keeps_what_was_written(tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    events = list(made_up(300, blocks=3))
    try:
        written_until(
            tmp_path / "run.sltrace", events, 300, "check the folder and its space",
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1])),
        )  # fmt: skip
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("bound", "most"), [("MAX_RECORDS", 7), ("MAX_UNPACKED", 900), ("MAX_STEPS", 2)])
def test_a_writer_stops_where_a_reader_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(f"engine.trace.format.{bound}", most)
    written_until(tmp_path / "run.sltrace", list(made_up()), LENGTH, "too long for a trace", lambda: None)


def test_an_unreadable_header_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="each of prompt_ids must be"):
        write(tmp_path / "run.sltrace", made_up(), header(prompt_ids=(2**30,)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="has no such rights")
def test_a_trace_is_for_its_owner_and_a_copy_as_any_file(tmp_path: Path) -> None:
    path, ordinary = write(tmp_path / "run.sltrace", made_up(), header()), tmp_path / "ordinary"
    ordinary.touch()
    open_trace(path).save(tmp_path / "copy.sltrace")
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "copy.sltrace").stat().st_mode == ordinary.stat().st_mode
