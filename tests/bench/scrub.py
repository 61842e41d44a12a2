"""Opens a long made-up run and scrubs through it with every view open, in each layer; prints the times as JSON.

``python -m tests.bench.scrub [--blocks 40] [--steps 48] [--cells 256]``. Not a test: times depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.design import motion
from app.design.stylesheet import apply_theme, chrome
from app.design.tokens import DARKROOM
from app.inspector.canvas.canvas import LAYERS
from app.inspector.page import InspectorPage
from engine.trace import Trace, open_trace
from tests.engine.traces import header, made_up

VOCABULARY = 4096
WORDS = ("light", "noise", " token", " canvas", "step", " model", "entropy", "settle", "ing", "paper", "ly", "\n")


def recorded(blocks: int, steps: int, cells: int) -> Trace:
    """A made-up run's trace."""
    trace = Trace(header=header(cells, VOCABULARY), piece=lambda token: WORDS[token % len(WORDS)])
    for event in made_up(cells, blocks, steps, 8, VOCABULARY):
        trace.append(event)
    return trace


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, 95th percentile and worst, in milliseconds."""
    ordered = sorted(seconds)
    return {
        "median": round(1000 * statistics.median(ordered), 2),
        "p95": round(1000 * ordered[int(0.95 * len(ordered))], 2),
        "worst": round(1000 * ordered[-1], 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--cells", type=int, default=256)
    options = parser.parse_args()
    app = QApplication([])
    apply_theme(app, DARKROOM)
    motion.set_reduced(True)
    page = InspectorPage()
    page.setStyleSheet(chrome(DARKROOM))
    page.resize(1280, 800)
    page.show()

    def settle() -> None:
        page.overview.finish()
        until = time.perf_counter() + 0.5
        while time.perf_counter() < until:
            app.processEvents()

    page.open_trace(recorded(1, 4, options.cells))  # fonts and the plots' library are there, as after the first
    settle()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.sltrace"
        recorded(options.blocks, options.steps, options.cells).save(path)
        size = path.stat().st_size
        began = time.perf_counter()
        page.open_trace(open_trace(path))
        page.grab()
        opening = time.perf_counter() - began
        began = time.perf_counter()
        page.overview.finish()
        reading = time.perf_counter() - began
        page.close_trace()

    page.open_trace(recorded(2, options.steps, options.cells))
    settle()
    page.player.select(options.cells // 3)
    page.player.go(0)
    settle()
    layers: dict[str, dict[str, float]] = {}
    every: list[float] = []
    worked: list[float] = []  # processor time, which other programs do not lengthen
    last = options.steps + 1  # the commit of the first block
    for layer in LAYERS:
        page.canvas.set_layer(layer)
        app.processEvents()
        frames = []
        for place in (*range(1, last + 1), *range(last - 1, -1, -1)):
            began, before = time.perf_counter(), time.process_time()
            page.player.go(place)
            app.processEvents()  # paints
            frames.append(time.perf_counter() - began)
            worked.append(time.process_time() - before)
        layers[layer] = spread(frames)
        every += frames
    page.close()
    found = {"frame_ms": spread(every), "frame_ms_by_processor_time": spread(worked), "frame_ms_by_layer": layers}
    found |= {"opening_ms": round(1000 * opening, 1), "file_bytes": size}
    found["reading_all_figures_ms"] = round(1000 * reading, 1)  # in idle time, afterwards
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
