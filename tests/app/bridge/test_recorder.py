"""Every run is taken down: in memory, and in a file that replays as the run was seen."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QObject, Slot
from pytestqt.qtbot import QtBot

from app.bridge.engine_thread import EngineLink
from app.bridge.messages import ModelLoaded, RunFailed, RunRequest, RunStarted, TraceNotKept
from app.bridge.recorder import TOP_K, reporting_candidates
from app.state.run.canvas import CanvasState
from engine import SKILLS, Event, GenerationConfig, GenerationFinished, StepFinished, Trace, open_trace
from engine.trace import Draft

MESSAGES = ({"role": "system", "content": "be short"}, {"role": "user", "content": "hello"})


class Reader(QObject):
    """Collects what arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    @Slot(object)
    def take(self, messages: list[Any]) -> None:
        self.messages += messages

    def has(self, kind: type) -> bool:
        return any(isinstance(message, kind) for message in self.messages)

    @property
    def trace(self) -> Trace:
        """Of the latest run."""
        trace: Trace = [message.trace for message in self.messages if isinstance(message, RunStarted)][-1]
        return trace


@pytest.fixture
def reader(qapp: QCoreApplication) -> Reader:  # noqa: ARG001 - no QObject before the application
    return Reader()


Run = Callable[..., Trace]


@pytest.fixture
def run(qtbot: QtBot, reader: Reader, fake: Any, tmp_path: Path) -> Iterator[Run]:
    """Runs the stand-in engine and waits for the run's end; traces go to ``tmp_path / "traces"``."""
    link = EngineLink(fake.load, fake.generate, traces=tmp_path / "traces")
    link.arrived.connect(reader.take)
    link.load(SKILLS, "Skills")
    qtbot.waitUntil(lambda: reader.has(ModelLoaded))

    def run(last: type = GenerationFinished, **changes: Any) -> Trace:
        before = len(reader.messages)
        link.run(RunRequest(MESSAGES, fake.defaults.replace(**changes), 7, think=True))
        qtbot.waitUntil(lambda: any(isinstance(message, last) for message in reader.messages[before:]))
        return reader.trace

    yield run
    link.shutdown()


def states(events: list[Event]) -> list[list[Any]]:
    """All that the canvases show after each event."""
    canvases, draft = CanvasState(), Draft(())
    shown = []
    for event in events:
        canvases.fold(event)
        draft.fold(event)
        now: list[Any] = [canvases.prompt_tokens, draft.tokens()]
        for block in canvases.blocks:
            now += [value.tolist() if isinstance(value, np.ndarray) else value for value in vars(block).values()]
            now += [block.states(calm=calm).tolist() for calm in (True, False)]
            now += [block.tokens(calm=calm).tolist() for calm in (True, False)]
        shown.append(now)
    return shown


def test_a_run_is_kept_in_a_file_of_its_own(run: Run, tmp_path: Path) -> None:
    live = run()
    assert live.path == tmp_path / "traces" / f"{live.header.id}.sltrace"
    found = open_trace(live.path, check=True)
    assert found.header == live.header
    assert states(list(found.events)) == states(live.events)
    assert (found.text, found.notice) == (live.text, "")
    header = found.header
    assert (header.prompt, header.messages, header.prompt_ids, header.think) == ("hello", MESSAGES, (2, 3), True)
    assert (header.model.title, header.model.path, header.model.vocab_size) == ("Skills", SKILLS, 64)
    assert (header.seed, header.config.top_k) == (7, TOP_K)
    assert run().path != live.path
    assert len(list((tmp_path / "traces").iterdir())) == 2


def test_what_was_asked_for_is_kept_and_candidates_are_added() -> None:
    config = GenerationConfig(entropy_bound=0.3)
    assert reporting_candidates(config) == dataclasses.replace(config, top_k=TOP_K)
    assert reporting_candidates(config.replace(top_k=20)).top_k == 20


def test_a_run_that_fails_keeps_why(run: Run, fake: Any) -> None:
    fake.fail_at = 1
    live = run(RunFailed)
    assert live.path is not None
    found = open_trace(live.path)
    assert len(found.steps) == 1
    assert found.failure == live.failure
    assert found.failure.startswith("Something went wrong: the graphics card fell out.")
    assert found.text == live.text != ""


def test_a_run_that_never_began_leaves_no_file(qtbot: QtBot, reader: Reader, fake: Any, tmp_path: Path) -> None:
    def fail(*_: Any, **__: Any) -> Iterator[Event]:
        raise RuntimeError("no room")

    link = EngineLink(fake.load, fail, traces=tmp_path / "traces")
    link.arrived.connect(reader.take)
    try:
        link.load(SKILLS, "Skills")
        link.run(RunRequest(MESSAGES, fake.defaults, 7))
        qtbot.waitUntil(lambda: reader.has(RunFailed))
    finally:
        link.shutdown()
    assert reader.trace.failure.startswith("Something went wrong: no room.")
    assert list(tmp_path.rglob("*.sltrace")) == []
    assert not reader.has(TraceNotKept)


def test_a_folder_that_cannot_be_written_stops_no_run_and_is_told_once(
    run: Run, reader: Reader, tmp_path: Path
) -> None:
    (tmp_path / "traces").write_text("in the way")
    for _ in range(2):
        live = run()
        assert live.path is None
        assert len(live.steps) == 3
    told = [message for message in reader.messages if isinstance(message, TraceNotKept)]
    assert len(told) == 1
    assert told[0].message.startswith("Runs are not kept for replay now: ")
    assert "[Errno" not in told[0].message
    (tmp_path / "traces").unlink()
    assert open_trace(run().path).notice == ""  # type: ignore[arg-type]
    (tmp_path / "traces").rename(tmp_path / "elsewhere")
    (tmp_path / "traces").write_text("in the way again")
    run()
    assert sum(isinstance(message, TraceNotKept) for message in reader.messages) == 2


def test_old_traces_are_pruned(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned: list[Path] = []
    monkeypatch.setattr("engine.prune_traces", pruned.append)
    monkeypatch.setattr("app.bridge.recorder.RUNS_TO_PRUNE", 2)
    for _ in range(4):  # when the fourth has told its end, the third is over
        run()
    assert pruned[:2] == [tmp_path / "traces"] * 2
    assert len(pruned) == 2


@pytest.mark.parametrize("stop_after", [None, 5])
def test_the_real_engine_replays_as_it_was_seen(
    qtbot: QtBot, reader: Reader, tmp_path: Path, stop_after: int | None
) -> None:
    link = EngineLink(traces=tmp_path)
    link.arrived.connect(reader.take)
    quick = GenerationConfig(max_new_tokens=192, confidence_threshold=0, max_denoising_steps=4, eos_token_ids=(1, 8))

    def steps() -> int:
        return sum(isinstance(message, StepFinished) for message in reader.messages)

    try:
        link.load(SKILLS, "Skills")
        qtbot.waitUntil(lambda: reader.has(ModelLoaded), timeout=60_000)
        link.pace_ms = 1
        link.run(RunRequest(({"role": "user", "content": "Count from 4 to 43."},), quick, 0))
        if stop_after is not None:
            qtbot.waitUntil(lambda: steps() >= stop_after, timeout=60_000)
            link.cancel()
        qtbot.waitUntil(lambda: reader.has(GenerationFinished), timeout=60_000)
    finally:
        link.shutdown()
    seen = [message for message in reader.messages if isinstance(message, Event)]
    (path,) = tmp_path.iterdir()
    found = open_trace(path)
    assert steps() == (12 if stop_after is None else len(found.steps))
    assert states(list(found.events)) == states(seen)
    assert found.result is not None
    assert found.result.reason == ("eos" if stop_after is None else "cancelled")
    assert all(step.top_tokens is not None and step.top_tokens.shape == (64, TOP_K) for step in found.steps)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such rights")
def test_traces_are_nobody_elses_to_read_those_from_before_too(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir(mode=0o755)
    (folder / "old.sltrace").touch(mode=0o644)
    (folder / "notes.txt").touch(mode=0o644)
    live = run()
    assert live.path is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in (live.path, folder / "old.sltrace")] == [0o600, 0o600]
    assert (folder / "notes.txt").stat().st_mode & 0o777 == 0o644  # nothing of ours
