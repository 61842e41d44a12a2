"""Reads a recorded run for replay. Meant for a thread, since a long run would block the window."""

from __future__ import annotations

from pathlib import Path

import engine
from app.state.run.replay import KEPT_BLOCKS, Replay
from engine import Recording


def read_run(run: Recording | Path) -> tuple[Replay, Recording]:
    """Returns a replay and the recording that it reads from.

    Raises:
        SafelightError: its file cannot be read.
    """
    recording = engine.open_trace(run) if isinstance(run, Path) else run
    replay = Replay(recording)
    for block in range(min(replay.blocks, KEPT_BLOCKS)):
        replay.record(block)  # fills the replay's cache
    return replay, recording
