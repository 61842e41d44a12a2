"""Launches the window several times, up to its first paint; prints the times as JSON.

``python -m tests.bench.first_paint [--launches 9]``. Seconds from the import of ``app.main``: by the clock, and of
work, which others on the machine do not lengthen. ``fresh`` is a launch with no compiled module, as after installing.
Not a test: times depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

CODE = """
import time
began = time.process_time()
from app.main import MainWindow, measure_first_paint
work = []
MainWindow._after_first_paint = lambda window: work.append(time.process_time())
print(measure_first_paint(), work[0] - began)
"""


def launch(**environment: str) -> tuple[float, float]:
    """Seconds by the clock and of work of one launch."""
    given = {"QT_QPA_PLATFORM": "offscreen"} | os.environ | environment
    done = subprocess.run([sys.executable, "-c", CODE], env=given, capture_output=True, text=True, check=True)
    clock, work = map(float, done.stdout.split())
    return clock, work


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=9)
    options = parser.parse_args()
    launch()  # what is read from the disk is in memory from now on
    clock, work = zip(*(launch() for _ in range(options.launches)), strict=True)
    with tempfile.TemporaryDirectory() as empty:
        fresh, _ = launch(PYTHONPYCACHEPREFIX=empty)
    found = {"first_paint": statistics.median(clock), "least": min(clock), "work": statistics.median(work)}
    print(json.dumps({name: round(seconds, 3) for name, seconds in (found | {"fresh": fresh}).items()}))


if __name__ == "__main__":
    main()
