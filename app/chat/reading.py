"""Reads a recorded run, ready to be gone through; for a thread of its own, as a long one would make the window wait."""

from __future__ import annotations

from pathlib import Path

import engine
from app.state.run.replay import KEPT_BLOCKS, Replay
from engine import Recording


def read_run(run: Recording | Path) -> tuple[Replay, Recording]:
    """A run, ready to be gone through.

    Raises:
        SafelightError: its file cannot be read.
    """
    recording = engine.open_trace(run) if isinstance(run, Path) else run
    replay = Replay(recording)
    for block in range(min(replay.blocks, KEPT_BLOCKS)):
        replay.record(block)  # is held from now on
    return replay, recording
