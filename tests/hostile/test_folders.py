"""Hostile homes, as far as one process can have them all at once; ``python -m tests.hostile.folders`` opens each."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.hostile.folders import open_one

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="the homes have pipes and sparse files")


def test_the_window_opens_whatever_is_there_and_says_what_it_set_aside(tmp_path: Path) -> None:
    told = open_one(
        tmp_path,
        *("config-deep", "models-odd-names", "traces-strange", "presets-pipe", "logs-strange"),
        "settings-garbage",
    )
    assert told.faults == []
    for part in ("presets.damaged", "Safelight.damaged"):
        assert part in told.said
    assert stat.S_IMODE((tmp_path / "config/Safelight/Safelight.conf").stat().st_mode) == 0o600
