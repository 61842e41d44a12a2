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
CASES = 2


@cache
def _slice() -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.hostile", "--cases", str(CASES), "--workers", "1", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {tally["kind"]: tally for tally in json.loads(done.stdout)}


BROKEN = """
import json, os, signal, time
from tests.hostile import __main__ as command
from tests.hostile.kind import Kind

held = []
def no_number(random, folder): return lambda: int("x")
def outside(random, folder): return lambda: open(folder / "../x", "w").close()
def dies(random, folder): return lambda: os.kill(os.getpid(), signal.SIGSEGV)
def hangs(random, folder): return lambda: time.sleep(100)
def greedy(random, folder): return lambda: held.append(bytearray(60_000_000))
def slow(random, folder): return lambda: 0.6
def good(random, folder): return lambda: None
def run(*makers): return command.run([Kind(each.__name__, each, in_window=True) for each in makers], 0, 0, 2, 0.0, 2)
command.MEMORY = 50 * 10**6
tallies = run(no_number, outside, dies, greedy, slow, good)
command.HANGS = 0.5
tallies += run(hangs)
print(json.dumps({tally.kind.name: [tally.cases, tally.findings] for tally in tallies}))
"""


@pytest.mark.slow
def test_the_harness_finds_what_is_broken() -> None:
    done = subprocess.run([sys.executable, "-c", BROKEN], cwd=ROOT, capture_output=True, text=True, check=True)
    tallies = json.loads(done.stdout)
    assert {name: cases for name, (cases, _) in tallies.items()} == dict.fromkeys(tallies, 2)
    findings = {name: " ".join(found) for name, (_, found) in tallies.items()}
    assert findings.pop("good") == ""
    for name, sign in {
        "no_number": "ValueError", "outside": "outside its folder: open", "dies": "ended the process (-11)",
        "hangs": "hung for", "greedy": "60 MB above", "slow": "took 0.60 s",
    }.items():  # fmt: skip
        assert sign in findings[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", kinds.all_kinds())
def test_nothing_comes_through(name: str) -> None:
    tally = _slice()[name]
    assert tally["cases"] == CASES
    assert not tally["findings"], "\n".join(tally["findings"])
