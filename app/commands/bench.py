"""``safelight bench``: how fast a model runs on this machine. Measuring is ``engine.bench``'s; this prints."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from app import terminal
from app.commands import options, running, window
from engine import SKILLS, SafelightError

if TYPE_CHECKING:
    from engine.bench import BenchResult

EPILOG = """\
The model's own tasks are run: Sudoku puzzles for the Sudoku model, held-out tasks for the skills model, and
general questions for any other. The same seed asks the same.

examples:
  safelight bench --model safelight-sudoku --runs 20
  safelight bench --json --window
"""
LAUNCH = "from app.main import measure_first_paint; print(measure_first_paint())"
LONGEST_LAUNCH = 120.0  # seconds


def add_parser(commands: argparse._SubParsersAction) -> None:  # type: ignore[type-arg]
    parser = commands.add_parser(
        "bench", help="measure speed and memory", description="Measure speed and memory on this machine.", epilog=EPILOG
    )
    parser.add_argument(
        "--runs", type=options.number("the runs", 1, 10_000), default=10, metavar="N", help="(default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--window", action="store_true", help="also time the window from launch to first paint")
    options.add_model(parser, SKILLS)
    options.add_sampler(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    changes = options.sampler_changes(args)
    launch = first_paint_seconds() if args.window else None  # before torch fills the memory
    model = running.load(args, SKILLS)
    config = options.settings(model.generation_defaults, changes)
    from engine.bench import measure

    with terminal.note(f"Running {model.name} {args.runs} times …"):
        result = measure(model, args.runs, running.seed(args), config)
    if args.json:
        record = result.as_dict()
        if launch is not None:
            record["window_seconds"] = launch
        running.print_json(record)
    else:
        _print_table(result, launch)
    return 0


def first_paint_seconds() -> float:
    """From launching a fresh process to its first painted window.

    Raises:
        SafelightError: no display, or the window did not come up.
    """
    if sys.platform.startswith(("linux", "freebsd")) and window.needs_xcb(os.environ):
        window.require_libraries()
    try:
        done = subprocess.run(
            [sys.executable, "-c", LAUNCH], capture_output=True, text=True, timeout=LONGEST_LAUNCH, check=False
        )
    except subprocess.TimeoutExpired:
        raise SafelightError(f"the window did not come up within {LONGEST_LAUNCH:.0f} s") from None
    try:
        return float(done.stdout.split()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise SafelightError(f"the window did not come up: {last}") from None


def _print_table(result: BenchResult, launch: float | None) -> None:
    table = terminal.table(f"{result.model} on {result.device}", "measure", "value", "unit")
    table.columns[2].justify = "left"
    memory = "unknown" if result.peak_memory_mb is None else f"{result.peak_memory_mb:.0f}"
    rows = [
        ("number type", result.dtype, ""),
        ("threads", str(result.threads), ""),
        ("parameters", f"{result.parameters / 1e6:.2f}", "million"),
        ("load", f"{result.load_seconds:.2f}", "s"),
        ("prefill, median", f"{result.prefill_ms:.1f}", "ms"),
        ("denoising step, median", f"{result.step_ms_median:.1f}", "ms"),
        ("denoising step, 95th percentile", f"{result.step_ms_p95:.1f}", "ms"),
        ("steps per canvas, mean", f"{result.steps_per_canvas_mean:.1f}", "steps"),
        ("steps per canvas, median", f"{result.steps_per_canvas_median:.1f}", "steps"),
        ("tokens per forward", f"{result.tokens_per_forward:.2f}", "tokens/step"),
        ("tokens per second", f"{result.tokens_per_second:.1f}", "tokens/s"),
        ("peak memory", memory, f"MB, {result.peak_memory_note}" if result.peak_memory_mb else result.peak_memory_note),
        ("runs", str(result.runs), ""),
    ]
    if launch is not None:
        rows.append(("launch to first painted window", f"{launch:.2f}", "s"))
    for row in rows:
        table.add_row(*row)
    terminal.console(sys.stdout).print(table)
