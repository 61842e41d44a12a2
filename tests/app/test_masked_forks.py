"""A fork of a run over masks, from the service to the file of its record and the frames of its replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.state.run.replay import Replay
from engine import Fork
from engine.catalog import MASKED
from engine.service import (
    ChatRun,
    ForkRun,
    LoadRequest,
    LocalBackend,
    ModelLoaded,
    RunEnded,
    RunRequest,
    RunStarted,
    run_alone,
)
from engine.trace import Recording, open_trace

PROMPT = ({"role": "user", "content": "Count from 4 to 43."},)


def recorded(backend: LocalBackend, request: RunRequest) -> Recording:
    replies = list(run_alone(backend, request))
    assert replies[-1] == RunEnded(request.run_id)
    trace = next(reply.trace for reply in replies if isinstance(reply, RunStarted))
    assert trace.path is not None
    return open_trace(trace.path)


def test_a_fork_over_masks_is_recorded_and_replayed(tmp_path: Path) -> None:
    backend, replies = LocalBackend(tmp_path), list[object]()
    backend.load(LoadRequest(MASKED, "Masked"), replies.append)
    model = next(reply.model for reply in replies if isinstance(reply, ModelLoaded))
    assert model.capabilities.forks
    root = recorded(backend, ChatRun(model.defaults.replace(max_new_tokens=48), 3, PROMPT))
    assert len(root.committed) == 3
    same = recorded(backend, ForkRun.of(root, (Fork(1, 1),)))
    alike = [[entry for entry in run.entries if entry.kind != "prefill"] for run in (root, same)]
    assert (same.text, alike[1]) == (root.text, alike[0])
    before = Replay(root).record(1)
    at = int(np.flatnonzero(~before.accepted[0])[-1])
    token = int(before.final[0])  # type: ignore[index]
    assert token != before.final[at]  # type: ignore[index]
    changed = recorded(backend, ForkRun.of(root, (Fork(1, 1, pinned=((at, token),)),)))
    assert changed.notice == changed.failure == ""
    replay = Replay(changed)
    record = replay.record(1)
    assert record.final is not None
    assert record.final[at] == token
    assert record.held[1:, at].all()
    assert not record.held[0].any()
    assert record.accepted[0].tolist() == before.accepted[0].tolist()
    assert np.array_equal(replay.record(0).final, Replay(root).record(0).final)  # type: ignore[arg-type]
    assert changed.committed[0].tokens.tolist() == root.committed[0].tokens.tolist()
    shown = [replay.snapshot(place).shown[at] for place in range(len(replay.frames)) if replay.frames[place].block == 1]
    assert token not in shown[:2]
    assert set(shown[2:]) == {token}
