"""Prints the result of ``safelight tune``, and draws its plot into a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.text import Text

from app.cli import terminal
from app.state.tuning.figures import figures, found_in_words
from app.state.tuning.result import TuningResult
from app.state.tuning.scores import TuningRow
from app.system.windows_start import load_torch_before_qt
from engine import SafelightError

PLOT_SUFFIXES = (".png", ".svg")


def show(result: TuningResult) -> None:
    """Prints the rows, the frontier, the choice, and the test in words."""
    screen = terminal.console(sys.stdout)
    points = f"{100 * result.margin:g} point{'s' * (result.margin != 0.01)}"
    best = result.frontier
    heading = f"{result.model}, {result.task}, seed {result.seed}; intervals of 95 %"
    table = terminal.table(heading, "rule", "prompts", "right", "steps", "share", "difference", "not lower")
    for row in result.rows:
        table.add_row(_name(row, is_best=row in best), *(one.joined(" ") for one in figures(result, row)))
    screen.print(table)
    lines = [
        "* on the frontier: no rule is right more often with as few steps",
        "steps: denoising steps of an answer, on average; share: of those of the model's own rule",
        f"difference: points of right answers above the model's own rule ({result.usual.candidate.title}) on the same "
        "prompts",
        f"not lower: the 95 % interval of the paired difference (Tango's score) lies above -{points}",
    ]
    if result.is_finished:
        lines.append(found_in_words(result, result.chosen.candidate.title))
    if result.preset:
        lines.append(f"saved as the preset “{result.preset}”")
    screen.print(Text("\n".join(lines), "dim"))


def _name(row: TuningRow, *, is_best: bool) -> str:
    """Returns a rule with its threshold, and below it what else was varied, two settings a line."""
    rule, *others = row.candidate.title.split(", ")
    pairs = (", ".join(others[place : place + 2]) for place in range(0, len(others), 2))
    return "\n".join((f"{rule}{' *' * is_best}", *pairs))


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
