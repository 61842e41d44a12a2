"""A puzzle through the model, and the table of what came of many: shared by solving and by scoring. No solver helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from app.cli import running, terminal
from app.state.sudoku.scores import Result, Scoreboard, ScoreRow, percent
from engine import GenerationConfig
from engine.tasks import sudoku

if TYPE_CHECKING:
    from engine import Model

NAMES = {"easy": "easy (40 or more)", "medium": "medium (30 to 39)", "hard": "hard (under 30)"}
WIDE = 92  # columns that the table takes with the bins' whole names


def contender(model: Model) -> str:
    """What to call whoever solves: the model, and the adapter on it."""
    return model.name if model.adapter is None else f"{model.name} + {model.adapter.name}"


def solve(
    model: Model,
    puzzle: str,
    solution: str,
    config: GenerationConfig,
    seed: int,
    observe: running.Observer | None = None,
) -> Result | None:
    """What the model writes for a puzzle; None where Ctrl+C stopped it."""
    ids = model.chat_ids([{"role": "user", "content": sudoku.to_prompt(puzzle)}])
    outcome = running.run(model, ids, config, seed, observe)
    if outcome.stopped:
        return None
    seconds = outcome.prefill_seconds + outcome.seconds
    return Result(puzzle, sudoku.read_answer(outcome.text), solution, outcome.steps, seconds, contender(model))


def table(scores: Scoreboard, title: str, columns: int) -> Table:
    """Solved puzzles by bin with their figures, in a terminal of so many columns."""
    heads = ("givens", "solved", "rate", "95 %\ninterval", "cells\nright", "givens\nkept", "steps,\nmean")
    frame = terminal.table(title, *heads, "steps,\nmedian", "seconds,\nmean")
    for row in scores.rows_to_show():
        frame.add_row(NAMES.get(row.bin, row.bin) if columns >= WIDE else row.bin, *_figures(row))
    return frame


def _figures(row: ScoreRow) -> tuple[str, ...]:
    return (
        f"{row.solved}/{row.count}",
        percent(row.rate),
        f"{100 * row.low:.1f}–{100 * row.high:.1f}",
        percent(row.cell_accuracy),
        percent(row.givens_kept),
        f"{row.mean_steps:.1f}",
        f"{row.median_steps:g}",
        f"{row.mean_seconds:.2f}",
    )


def rates(scores: Scoreboard) -> str:
    """The running rate of every bin with results, on one line."""
    return " · ".join(f"{row.bin} {row.solved}/{row.count} {percent(row.rate)}" for row in scores.rows_to_show())
