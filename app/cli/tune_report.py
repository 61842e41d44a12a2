"""Prints the result of ``safelight tune``."""

from __future__ import annotations

import sys

from rich.text import Text

from app.cli import terminal
from app.state.intervals import percent
from app.state.tuning.result import TuningResult
from app.state.tuning.scores import TuningRow


def show(result: TuningResult) -> None:
    """Prints the rows, the frontier, the choice, and the test in words."""
    screen = terminal.console(sys.stdout)
    points = f"{100 * result.margin:g} point{'s' * (result.margin != 0.01)}"
    best = result.frontier
    heading = f"{result.model}, {result.task}, seed {result.seed}; intervals of 95 %"
    table = terminal.table(heading, "rule", "prompts", "right", "steps", "share", "difference", "not lower")
    for row in result.rows:
        table.add_row(_name(row, is_best=row in best), *_figures(result, row))
    screen.print(table)
    lines = [
        "* on the frontier: no rule is right more often with as few steps",
        "steps: denoising steps of an answer, on average; share: of those of the model's own rule",
        f"difference: points of right answers above the model's own rule ({result.usual.candidate.title}) on the same "
        "prompts",
        f"not lower: the 95 % interval of the paired difference (Tango's score) lies above -{points}",
    ]
    if result.is_finished:
        lines.append(_found(result))
    if result.preset:
        lines.append(f"saved as the preset “{result.preset}”")
    screen.print(Text("\n".join(lines), "dim"))


def _name(row: TuningRow, *, is_best: bool) -> str:
    """Returns a rule with its threshold, and below it what else was varied, two settings a line."""
    rule, *others = row.candidate.title.split(", ")
    pairs = (", ".join(others[place : place + 2]) for place in range(0, len(others), 2))
    return "\n".join((f"{rule}{' *' * is_best}", *pairs))


def _figures(result: TuningResult, row: TuningRow) -> tuple[str, ...]:
    """Returns a row's prompts, right answers, steps, share of the reference's steps, difference, and test."""
    (low, high), (fast, slow), (less, more) = row.interval, row.ratio_interval, row.difference_interval
    own = (f"{row.count:,}", f"{percent(row.rate)} ({100 * low:.1f}–{100 * high:.1f})", f"{row.steps:.2f}")
    if row is result.usual:
        return (*own, *"–––")
    return (
        *own,
        f"{percent(row.ratio)} ({100 * fast:.0f}–{100 * slow:.0f})",
        f"{100 * row.difference:+.1f} ({100 * less:+.1f} to {100 * more:+.1f})",
        "yes" if row.is_not_lower(result.margin) else "no",
    )


def _found(result: TuningResult) -> str:
    """Describes what a finished tuning has found."""
    chosen, usual = result.chosen, result.usual
    if chosen is usual:
        return "no faster rule is shown to lose no right answers, so that the one of the model stays."
    return (
        f"“{chosen.candidate.title}” takes {chosen.steps:.2f} steps in place of {usual.steps:.2f}, "
        f"with {percent(chosen.rate)} right in place of {percent(usual.rate)}."
    )
