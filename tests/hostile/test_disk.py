"""A short slice of the full disks and held locks; ``python -m tests.hostile.disk --times 200`` runs more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 4


@pytest.mark.skipif(sys.platform == "win32", reason="fills disks as POSIX does")
def test_nothing_that_was_on_screen_is_lost() -> None:
    command = [sys.executable, "-m", "tests.hostile.disk", "--times", str(ROUNDS), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told["lost"] == []
    assert (told["rounds"], done.returncode) == (ROUNDS, 0)
    assert told["checked"]["conversations"] >= ROUNDS
    assert set(told["faults"]) == {"lock", "disk full"}
