"""Prints the result of ``safelight tune``, and draws its plot into a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.text import Text

from app.cli import terminal
from app.state.intervals import percent
from app.state.tuning.result import TuningResult
from app.state.tuning.scores import TuningRow
from app.system.windows_start import load_torch_before_qt
from engine import SafelightError

PLOT_SUFFIXES = (".png", ".svg")


def show(result: TuningResult) -> None:
    """Prints the rows, the frontier, the choice, and the test in words."""
    screen = terminal.console(sys.stdout)
    points = f"{100 * result.margin:g} point{'s' * (result.margin != 0.01)}"
    best, chosen = result.frontier, result.chosen
    heading = f"{result.model}, {result.task}, seed {result.seed}; intervals of 95 %"
    table = terminal.table(heading, "rule", "prompts", "right", "steps", "ratio", "difference", "not lower")
    for row in result.rows:
        table.add_row(*_cells(row, result, is_best=row in best))
    screen.print(table)
    lines = [
        "* on the frontier: no rule is right more often with as few steps",
        "steps: denoising steps of an answer, on average; ratio: to those of the model's own rule",
        f"difference: points of right answers above the model's own rule ({result.usual.candidate.title}) on the same "
        "prompts",
        f"not lower: the 95 % interval of the paired difference (Tango's score) lies above -{points}",
        _choice_in_words(result, chosen, points),
    ]
    screen.print(Text("\n".join(lines), "dim"))


def _choice_in_words(result: TuningResult, chosen: TuningRow, points: str) -> str:
    """Returns a sentence about the choice, and one about the preset."""
    if not result.is_finished:
        return "not finished: nothing is chosen yet"
    if chosen is result.usual:
        return f"No rule takes fewer steps and is shown to be not lower by {points}; the model's own stays."
    saved = f" It is saved as the preset “{result.preset}”." if result.preset else ""
    return (
        f"Chosen: {chosen.candidate.title}, {chosen.steps:.2f} steps in place of {result.usual.steps:.2f}, "
        f"{percent(chosen.rate)} right in place of {percent(result.usual.rate)}.{saved}"
    )


def _cells(row: TuningRow, result: TuningResult, *, is_best: bool) -> tuple[str, ...]:
    low, high = row.interval
    name = f"{row.candidate.title}{' *' * is_best}"
    figures = (str(row.count), f"{percent(row.rate)} ({100 * low:.1f}–{100 * high:.1f})", f"{row.steps:.2f}")
    if row is result.usual:
        return (name, *figures, "1", "–", "–")
    (fast, slow), (less, more) = row.ratio_interval, row.difference_interval
    return (
        name,
        *figures,
        f"{row.ratio:.3f} ({fast:.3f}–{slow:.3f})",
        f"{100 * row.difference:+.1f} ({100 * less:+.1f} to {100 * more:+.1f})",
        "yes" if row.is_not_lower(result.margin) else "no",
    )


def check_plot(path: Path) -> None:
    """Checks, before anything is run, that a plot can be written to a path.

    Raises:
        SafelightError: the path has another ending, or its folder does not exist.
    """
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise SafelightError(f"--plot draws {' or '.join(PLOT_SUFFIXES)} files; give FILE one of these endings")
    if not path.absolute().parent.is_dir():
        raise SafelightError(f"there is no folder {path.absolute().parent}. Choose a folder that exists")


def write_plot(result: TuningResult, path: Path, theme: str) -> None:
    """Draws the result into a file, without a display.

    Raises:
        SafelightError: it cannot be written.
    """
    load_torch_before_qt()
    if sys.platform.startswith("linux"):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtGui import QGuiApplication  # imports Qt

    from app.design.tokens import DARKROOM, PAPER
    from app.race.tuning.painting import save_plot

    painting = QGuiApplication.instance() or QGuiApplication([sys.argv[0]])
    save_plot(result, path, DARKROOM if theme == "darkroom" else PAPER)
    del painting
