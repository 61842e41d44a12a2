"""Every run is taken down: in memory, and in a file that replays as the run was seen."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.state.run.canvas import CanvasState
from engine import MINI, Event, GenerationConfig, StepFinished, Trace, open_trace
from engine.service import (
    Backend,
    ChatRun,
    LoadRequest,
    LocalBackend,
    RunAdvanced,
    RunEnded,
    RunReply,
    RunStarted,
    TraceNotKept,
    run_alone,
)
from engine.service.recorder import TOP_K, reporting_candidates
from engine.trace import Draft
from tests.engine.traces import read_whole
from tests.fake_engine import FakeEngine

MESSAGES = ({"role": "system", "content": "be short"}, {"role": "user", "content": "hello"})
Run = Callable[..., Trace]


class Reader:
    """Collects what is replied."""

    def __init__(self) -> None:
        self.replies: list[RunReply] = []

    def has(self, kind: type) -> bool:
        return any(isinstance(reply, kind) for reply in self.replies)

    @property
    def trace(self) -> Trace:
        """Of the latest run."""
        return [reply.trace for reply in self.replies if isinstance(reply, RunStarted)][-1]

    @property
    def events(self) -> list[Event]:
        return [reply.event for reply in self.replies if isinstance(reply, RunAdvanced)]


def load(backend: Backend) -> None:
    backend.load(LoadRequest(MINI, "Skills"), lambda _: None)


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    made = FakeEngine(tmp_path / "traces")
    load(made)
    return made


@pytest.fixture
def run(reader: Reader, fake: FakeEngine) -> Run:
    """Runs the stand-in engine to its end; traces go to ``tmp_path / "traces"``."""

    def run(**changes: Any) -> Trace:
        request = ChatRun(fake.defaults.replace(**changes), 7, MESSAGES, think=True)
        reader.replies += run_alone(fake, request)
        assert isinstance(reader.replies[-1], RunEnded)
        return reader.trace

    return run


def states(events: list[Event]) -> list[list[Any]]:
    """All that the canvases show after each event."""
    canvases, draft = CanvasState(), Draft(())
    shown = []
    for event in events:
        canvases.fold(event)
        draft.fold(event)
        now: list[Any] = [draft.tokens()]
        for block in canvases.blocks:
            now += [value.tolist() if isinstance(value, np.ndarray) else value for value in vars(block).values()]
            now += [block.states(calm=calm).tolist() for calm in (True, False)]
            now += [block.tokens(calm=calm).tolist() for calm in (True, False)]
        shown.append(now)
    return shown


def test_a_run_is_kept_in_a_file_of_its_own(run: Run, tmp_path: Path) -> None:
    live = run()
    assert live.path == tmp_path / "traces" / f"{live.header.id}.sltrace"
    found = read_whole(live.path)
    assert found.header == live.header
    assert states(list(found.events)) == states(live.events)
    assert (found.text, found.notice) == (live.text, "")
    header = found.header
    assert (header.prompt, header.messages, header.prompt_ids, header.think) == ("hello", MESSAGES, (2, 3), True)
    assert (header.model.title, header.model.path, header.model.vocab_size) == ("Skills", MINI, 64)
    assert (header.seed, header.config.top_k) == (7, TOP_K)
    assert run().path != live.path
    assert len(list((tmp_path / "traces").iterdir())) == 2


def test_what_was_asked_for_is_kept_and_candidates_are_added() -> None:
    config = GenerationConfig(entropy_bound=0.3)
    assert reporting_candidates(config) == dataclasses.replace(config, top_k=TOP_K)
    assert reporting_candidates(config.replace(top_k=20)).top_k == 20


def test_a_run_that_fails_keeps_why(run: Run, fake: Any) -> None:
    fake.fail_at = 1
    live = run()
    assert live.path is not None
    found = open_trace(live.path)
    assert len(found.steps) == 1
    assert found.failure == live.failure
    assert found.failure.startswith("Something went wrong: the graphics card fell out.")
    assert found.text == live.text != ""


def test_a_run_goes_on_without_its_folder_and_that_is_reported_once(run: Run, reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("in the way")
    for _ in range(2):
        live = run()
        assert live.path is None
        assert len(live.steps) == 3
    told = [reply for reply in reader.replies if isinstance(reply, TraceNotKept)]
    assert len(told) == 1
    assert told[0].message.startswith("Runs are not kept for replay now: ")
    assert "[Errno" not in told[0].message
    (tmp_path / "traces").unlink()
    assert open_trace(run().path).notice == ""  # type: ignore[arg-type]
    (tmp_path / "traces").rename(tmp_path / "elsewhere")
    (tmp_path / "traces").write_text("in the way again")
    run()
    assert sum(isinstance(reply, TraceNotKept) for reply in reader.replies) == 2


def test_old_traces_are_pruned(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned: list[Path] = []
    monkeypatch.setattr("engine.service.recorder.prune_traces", pruned.append)
    monkeypatch.setattr("engine.service.recorder.RUNS_TO_PRUNE", 2)
    for _ in range(4):
        run()
    assert pruned == [tmp_path / "traces"] * 2


@pytest.mark.parametrize("stop_after", [None, 5])
def test_the_real_engine_replays_as_it_was_seen(reader: Reader, tmp_path: Path, stop_after: int | None) -> None:
    backend = LocalBackend(tmp_path)
    load(backend)
    quick = GenerationConfig(max_new_tokens=192, confidence_threshold=0, max_denoising_steps=4, eos_token_ids=(1, 8))
    request = ChatRun(quick, 0, ({"role": "user", "content": "Count from 4 to 43."},))

    def steps() -> int:
        return sum(isinstance(event, StepFinished) for event in reader.events)

    for reply in run_alone(backend, request):
        reader.replies.append(reply)
        if steps() == stop_after:
            request.cancel.set()
    (path,) = tmp_path.iterdir()
    found = open_trace(path)
    assert steps() == (12 if stop_after is None else len(found.steps))
    assert states(list(found.events)) == states(reader.events)
    assert found.result is not None
    assert found.result.reason == ("eos" if stop_after is None else "cancelled")
    assert all(step.top_tokens is not None and step.top_tokens.shape == (64, TOP_K) for step in found.steps)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such rights")
def test_traces_are_private(run: Run, tmp_path: Path) -> None:
    live = run()
    assert live.path is not None
    assert (tmp_path / "traces").stat().st_mode & 0o777 == 0o700
    assert live.path.stat().st_mode & 0o777 == 0o600
