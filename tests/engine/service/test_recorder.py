"""Every run is taken down: in memory, and in a file that replays as the run was seen."""

from __future__ import annotations

import sys
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
    RunEnded,
    RunReply,
    TraceNotKept,
    run_alone,
)
from engine.service.recorder import TOP_K, reporting_candidates
from engine.trace import Draft
from tests.engine.service.test_local import events, trace_of
from tests.engine.traces import read_whole
from tests.fake_engine import FakeEngine

MESSAGES = ({"role": "system", "content": "be short"}, {"role": "user", "content": "hello"})


def load(backend: Backend) -> None:
    backend.load(LoadRequest(MINI, "Skills"), lambda _: None)


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    """The stand-in engine; traces go to ``tmp_path / "traces"``."""
    made = FakeEngine(tmp_path / "traces")
    load(made)
    return made


def replies_of(fake: FakeEngine) -> list[RunReply]:
    replies = list(run_alone(fake, ChatRun(fake.defaults, 7, MESSAGES, think=True)))
    assert isinstance(replies[-1], RunEnded)
    return replies


def run(fake: FakeEngine) -> Trace:
    return trace_of(replies_of(fake))


def states(shown_events: list[Event]) -> list[list[Any]]:
    """Everything that the canvases show after each event."""
    canvases, draft = CanvasState(), Draft(())
    shown = []
    for event in shown_events:
        canvases.fold(event)
        draft.fold(event)
        now: list[Any] = [draft.tokens()]
        for block in canvases.blocks:
            now += [value.tolist() if isinstance(value, np.ndarray) else value for value in vars(block).values()]
            now += [block.states(calm=calm).tolist() for calm in (True, False)]
            now += [block.tokens(calm=calm).tolist() for calm in (True, False)]
        shown.append(now)
    return shown


def test_a_run_is_kept_in_a_file_of_its_own(fake: FakeEngine, tmp_path: Path) -> None:
    live = run(fake)
    assert live.path == tmp_path / "traces" / f"{live.header.id}.sltrace"
    found = read_whole(live.path)
    assert found.header == live.header
    assert states(list(found.events)) == states(live.events)
    assert (found.text, found.notice) == (live.text, "")
    header = found.header
    assert (header.prompt, header.messages, header.prompt_ids, header.think) == ("hello", MESSAGES, (2, 3), True)
    assert (header.model.title, header.model.path, header.model.vocab_size) == ("Skills", MINI, 64)
    assert (header.seed, header.config.top_k) == (7, TOP_K)
    assert run(fake).path != live.path
    assert len(list((tmp_path / "traces").iterdir())) == 2
    assert reporting_candidates(fake.defaults.replace(top_k=20)).top_k == 20


def test_a_run_that_fails_keeps_why(fake: FakeEngine) -> None:
    fake.fail_at = 1
    live = run(fake)
    assert live.path is not None
    found = open_trace(live.path)
    assert len(found.steps) == 1
    assert found.failure == live.failure
    assert found.failure.startswith("Something went wrong: the graphics card fell out.")
    assert found.text == live.text != ""


def test_a_run_goes_on_without_its_folder_and_that_is_reported_once(fake: FakeEngine, tmp_path: Path) -> None:
    def warnings(replies: list[RunReply]) -> list[str]:
        return [str(reply.message) for reply in replies if isinstance(reply, TraceNotKept)]

    (tmp_path / "traces").write_text("in the way")
    first, second = replies_of(fake), replies_of(fake)
    for replies in (first, second):
        assert trace_of(replies).path is None
        assert len(trace_of(replies).steps) == 3
    [warning] = warnings(first)
    assert warning.startswith("Runs are not kept for replay now: ")
    assert "[Errno" not in warning
    assert warnings(second) == []
    (tmp_path / "traces").unlink()
    assert open_trace(run(fake).path).notice == ""  # type: ignore[arg-type]
    (tmp_path / "traces").rename(tmp_path / "elsewhere")
    (tmp_path / "traces").write_text("in the way again")
    assert len(warnings(replies_of(fake))) == 1


def test_old_traces_are_pruned(fake: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned: list[Path] = []
    monkeypatch.setattr("engine.service.recorder.prune_traces", pruned.append)
    monkeypatch.setattr("engine.service.recorder.RUNS_TO_PRUNE", 2)
    for _ in range(4):
        run(fake)
    assert pruned == [tmp_path / "traces"] * 2


@pytest.mark.parametrize("stop_after", [None, 5])
def test_the_real_engine_replays_as_it_was_seen(tmp_path: Path, stop_after: int | None) -> None:
    backend = LocalBackend(tmp_path)
    load(backend)
    quick = GenerationConfig(max_new_tokens=192, confidence_threshold=0, max_denoising_steps=4, eos_token_ids=(1, 8))
    request = ChatRun(quick, 0, ({"role": "user", "content": "Count from 4 to 43."},))
    seen: list[Event] = []
    steps = 0
    for reply in run_alone(backend, request):
        seen += events([reply])
        steps = sum(isinstance(event, StepFinished) for event in seen)
        if steps == stop_after:
            request.cancel.set()
    (path,) = tmp_path.iterdir()
    found = open_trace(path)
    assert steps == (12 if stop_after is None else len(found.steps))
    assert states(list(found.events)) == states(seen)
    assert found.result is not None
    assert found.result.reason == ("eos" if stop_after is None else "cancelled")
    assert all(step.top_tokens is not None and step.top_tokens.shape == (64, TOP_K) for step in found.steps)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such rights")
def test_traces_are_private(fake: FakeEngine, tmp_path: Path) -> None:
    live = run(fake)
    assert live.path is not None
    assert (tmp_path / "traces").stat().st_mode & 0o777 == 0o700
    assert live.path.stat().st_mode & 0o777 == 0o600
