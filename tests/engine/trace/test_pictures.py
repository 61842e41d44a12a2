"""The pictures of a run's prompt in its trace: there with their bytes, and no harm where they are damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine import SafelightError, Trace, TraceWriter, open_trace
from engine.forks import Fork
from engine.pictures import Picture
from engine.service.requests import ForkRun
from engine.text.message import image_of
from tests.engine import traces
from tests.engine.drawn import picture
from tests.engine.traces import read_whole

RED, BLUE = picture("red"), picture("blue", 20, 400)
FORK = (Fork(1, 2, seed=8),)


MESSAGES = ({"role": "user", "content": "prompt", "images": (image_of(RED), image_of(BLUE))},)


def written(path: Path, *pictures: Picture) -> Path:
    header = traces.header(messages=MESSAGES)
    with TraceWriter(path, header, traces.letter, traces.is_tenth, traces.letters, pictures) as writer:
        for event in traces.made_up():
            writer.append(event)
    return path


def test_a_trace_has_the_pictures_of_its_prompt(tmp_path: Path) -> None:
    path = written(tmp_path / "a.sltrace", RED, BLUE)
    found = read_whole(path)
    assert found.header.messages == traces.header(messages=MESSAGES).messages
    held = found.pictures
    assert held == (RED, BLUE)
    assert all(own is known for own, known in zip(found.pictures, held, strict=True))  # read once
    assert found.notice == ""
    traces.assert_same(found.events, list(traces.made_up()))
    found.save(tmp_path / "b.sltrace")
    assert (tmp_path / "b.sltrace").read_bytes() == path.read_bytes()
    live = Trace(header=found.header, pictures=(RED, BLUE))
    for event in traces.made_up():
        live.append(event)
    live.save(tmp_path / "c.sltrace")
    assert open_trace(tmp_path / "c.sltrace").pictures == (RED, BLUE)
    assert ForkRun.of(found, FORK).pictures == (RED, BLUE)


def test_only_runs_with_pictures_need_a_newer_reader(tmp_path: Path) -> None:
    assert struct.unpack_from("<I", written(tmp_path / "a.sltrace", RED, BLUE).read_bytes(), 8) == (3,)
    assert traces.header().format_version == 1


def test_a_damaged_picture_costs_itself_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "a.sltrace", RED, BLUE)
    data = bytearray(path.read_bytes())
    data[data.index(RED.data) + 40] ^= 1
    path.write_bytes(data)
    found = read_whole(path)
    assert found.pictures == (BLUE,)
    traces.assert_same(found.events, list(traces.made_up()))
    with pytest.raises(SafelightError, match="picture"):
        ForkRun.of(found, FORK)


def test_more_pictures_than_a_trace_holds_are_not_written(tmp_path: Path) -> None:
    large = Picture("0" * 64, bytes(20 * 2**20 + 1), 1, 1)
    with pytest.raises(SafelightError, match="too long for a trace"):
        written(tmp_path / "a.sltrace", large)


def test_a_run_is_recorded_without_the_pictures_that_find_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.trace.writer.MAX_PICTURED", len(BLUE.data))
    found = open_trace(written(tmp_path / "a.sltrace", BLUE, RED))
    assert found.pictures == (BLUE,)
    traces.assert_same(found.events, list(traces.made_up()))
