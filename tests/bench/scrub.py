"""Opens a long made-up run and scrubs through it with every view on show, in each layer; prints the times as JSON.

``python -m tests.bench.scrub [--blocks 40] [--steps 48] [--cells 256]``. Not a test: times depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtWidgets import QApplication

from app.design import motion
from app.design.stylesheet import apply_theme, chrome
from app.design.tokens import DARKROOM
from app.inspector.canvas.canvas import LAYERS
from app.inspector.page import InspectorPage
from engine import CanvasCommitted, CanvasStarted, Event, GenerationConfig, GenerationFinished, StepFinished
from engine.trace import ModelIdentity, Trace, TraceHeader, open_trace

TOP = 8
VOCABULARY = 4096
WORDS = ("light", "noise", " token", " canvas", "step", " model", "entropy", "settle", "ing", "paper", "ly", "\n")


def piece(token: int) -> str:
    """A made-up vocabulary of word parts."""
    return WORDS[token % len(WORDS)]


def run(blocks: int, steps: int, cells: int, seed: int = 1) -> list[Event]:
    """A run in which cells settle one after the other, some of them after a remelt."""
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    for block in range(blocks):
        final = rng.integers(0, VOCABULARY, cells).astype(np.int32)
        settles = rng.integers(0, steps, cells)
        events.append(
            CanvasStarted(block, rng.integers(0, VOCABULARY, cells).astype(np.int32), np.zeros(cells, dtype=np.bool_))
        )
        for step in range(steps):
            settled = settles <= step
            accepted = settled | (rng.random(cells) < 0.05)
            guess = np.where(settled, final, rng.integers(0, VOCABULARY, cells)).astype(np.int32)
            noise = rng.integers(0, VOCABULARY, cells)
            entropy = np.where(settled, 0.05, 4.0 * rng.random(cells)).astype(np.float32)
            tops = rng.integers(0, VOCABULARY, (cells, TOP)).astype(np.int32)
            tops[:, 0] = guess
            shares = np.sort(rng.dirichlet(np.ones(TOP + 1), cells).astype(np.float32)[:, :TOP])[:, ::-1]
            following = np.where(accepted, guess, noise).astype(np.int32)
            temperature = 0.8 - 0.4 * step / steps
            events.append(
                StepFinished(
                    block, step, temperature, guess, guess, entropy, accepted, following, 0.03, tops, shares.copy()
                )
            )
        events.append(CanvasCommitted(block, final, cells, steps, "step_cap" if block % 2 else "converged"))
    tokens = np.zeros(0, dtype=np.int32)
    events.append(GenerationFinished("length", tokens, blocks, blocks * steps, 1.0))
    return events


def recorded(events: list[Event]) -> Trace:
    """These events as a run's trace."""
    header = TraceHeader(ModelIdentity("made-up", vocab_size=VOCABULARY), "A long prompt", GenerationConfig(), 1)
    trace = Trace(header=header, piece=piece)
    for event in events:
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
    app = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(app, QApplication)
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

    page.open_trace(recorded(run(1, 4, options.cells, 7)))  # fonts and the plots' library are there, as after the first
    settle()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.sltrace"
        recorded(run(options.blocks, options.steps, options.cells)).save(path)
        size = path.stat().st_size
        began = time.perf_counter()
        page.open_trace(open_trace(path))
        page.grab()
        opening = time.perf_counter() - began
        began = time.perf_counter()
        page.overview.finish()
        reading = time.perf_counter() - began
        page.close_trace()

    page.open_trace(recorded(run(2, options.steps, options.cells)))
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
    print(
        json.dumps(
            {
                "cells": options.cells,
                "steps": options.steps,
                "frame_ms": spread(every),
                "frame_ms_by_processor_time": spread(worked),
                "frame_ms_by_layer": layers,
                "opening_blocks": options.blocks,
                "opening_ms": round(1000 * opening, 1),
                "file_bytes": size,
                "reading_all_figures_ms": round(1000 * reading, 1),  # in idle time, afterwards
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
