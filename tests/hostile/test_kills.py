"""A few kills of each subject; ``python -m tests.hostile.kills --kills 1000`` makes the figures of the README."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_few_kills_lose_nothing() -> None:
    chosen = [
        word for name in ("chat", "download", "conversion", "presets", "settings") for word in ("--subject", name)
    ]
    command = [sys.executable, "-m", "tests.hostile.kills", "--kills", "14", *chosen, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    scores = json.loads(done.stdout)
    assert all(score["kills"] for score in scores)
    assert not [lost for score in scores for lost in score["lost"]], done.stderr[-2000:]
