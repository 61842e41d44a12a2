"""A short slice of the hostile input, the same seeds each time; ``python -m tests.hostile --minutes 30`` runs more."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import kinds

ROOT = Path(__file__).resolve().parents[2]
CASES = 12


@cache
def _slice() -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.hostile", "--cases", str(CASES), "--workers", "1", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {told["kind"]: told for told in json.loads(done.stdout)}


@pytest.mark.parametrize("name", kinds.all_kinds())
def test_nothing_comes_through(name: str) -> None:
    told = _slice()[name]
    assert told["cases"] == CASES
    assert not told["findings"], "\n".join(told["findings"])
