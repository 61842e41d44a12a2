"""A few kills, full disks and held locks; ``python -m tests.hostile.kills`` and ``.disk`` run more, for the README.

Both wait more than they work, so that they run side by side.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 2
SUBJECTS = ("chat", "download", "conversion", "presets", "settings")
COMMANDS = {
    "kills": ["--kills", "7", *(word for name in SUBJECTS for word in ("--subject", name))],
    "disk": ["--times", str(ROUNDS)],
}

Running = dict[str, subprocess.Popen[str]]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """Both commands at work."""
    with ExitStack() as ended:
        yield {
            name: ended.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", f"tests.hostile.{name}", *options, "--json"],
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for name, options in COMMANDS.items()
        }


def test_a_few_kills_lose_nothing(running: Running) -> None:
    out, errors = running["kills"].communicate()
    assert running["kills"].returncode in (0, 1), errors
    scores = json.loads(out)
    assert all(score["kills"] for score in scores)
    assert not [lost for score in scores for lost in score["lost"]], errors[-2000:]


@pytest.mark.skipif(sys.platform == "win32", reason="fills disks as POSIX does")
def test_nothing_that_was_on_screen_is_lost(running: Running) -> None:
    out, errors = running["disk"].communicate()
    assert out, errors
    told = json.loads(out)
    assert told["lost"] == []
    assert (told["rounds"], running["disk"].returncode) == (ROUNDS, 0)
    assert told["checked"]["conversations"] >= ROUNDS
    assert set(told["faults"]) == {"lock", "disk full"}
