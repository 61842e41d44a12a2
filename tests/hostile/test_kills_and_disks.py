"""A few kills, full disks and held locks; ``python -m tests.hostile.kills`` and ``.disk`` run more, for the README."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 2
COMMANDS = {
    "kills": ["--kills", "7"],
    "disk": ["--times", str(ROUNDS)],
}


def told(name: str) -> tuple[Any, int, str]:
    """What a command prints, its exit status, and its errors."""
    command = [sys.executable, "-m", f"tests.hostile.{name}", *COMMANDS[name]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout), done.returncode, done.stderr


@pytest.mark.slow
def test_a_few_kills_lose_nothing() -> None:
    score, _, errors = told("kills")
    assert score["kills"] == 7
    assert score["lost"] == [], errors[-2000:]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="fills disks as POSIX does")
def test_nothing_that_was_on_screen_is_lost() -> None:
    found, status, errors = told("disk")
    assert found["lost"] == [], errors[-2000:]
    assert (found["rounds"], status) == (ROUNDS, 0)
    assert found["checked"]["conversations"] >= ROUNDS
    assert set(found["faults"]) == {"lock", "disk full"}
