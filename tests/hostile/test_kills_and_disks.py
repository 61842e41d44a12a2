"""A few kills, full disks and held locks; ``python -m tests.hostile.kills`` and ``.disk`` run more, for the README."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="kills and fills disks as POSIX does"),
]


def found_by(*arguments: str) -> dict[str, Any]:
    """Returns what a command prints, which found nothing lost."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["lost"] == []
    return found


def test_a_few_kills_lose_nothing() -> None:
    assert found_by("tests.hostile.kills", "--kills", "7")["kills"] == 7


def test_nothing_that_was_on_screen_is_lost() -> None:
    found = found_by("tests.hostile.disk", "--times", "2")
    assert found["rounds"] == 2
    assert found["checked"]["conversations"] >= 2
    assert set(found["faults"]) == {"lock", "disk full"}
