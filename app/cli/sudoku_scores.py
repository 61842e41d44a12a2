"""``safelight sudoku --eval``: measures how many fresh puzzles the model solves, and prints the table of results.

Knows no torch. No solver changes what the model writes.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from app.cli import options, running, terminal
from app.state.intervals import percent
from app.state.sudoku.scores import ALL, MOST, Result, Scoreboard, ScoreRow, make_puzzle
from engine import SUDOKU, GenerationConfig, SafelightError
from engine.files import write_text
from engine.tasks import sudoku
from engine.tasks.sudoku import BINS, GIVENS, GivenRange

if TYPE_CHECKING:
    from engine import Model

COUNT = 50
NAMES = {
    "easy": f"easy ({sudoku.GIVENS['easy'].low} or more)",
    "medium": f"medium ({sudoku.GIVENS['medium'].low} to {sudoku.GIVENS['medium'].high})",
    "hard": f"hard (under {sudoku.GIVENS['medium'].low})",
}
WIDE = 92  # columns of the table with the bins' full names
PLAIN_LINES = 10  # lines of progress in all, if a line cannot be overwritten


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scoring a model on fresh puzzles that no model here was trained on")
    group.add_argument(
        "--eval", action="store_true", help="score the model instead, on puzzles with --givens or of a --bin"
    )
    spans = ", ".join(f"{name} {span}" for name, span in GIVENS.items())
    group.add_argument("--bin", choices=(*BINS, ALL), help=f"puzzles by their givens: {spans} (default: all)")
    group.add_argument(
        "--count",
        type=options.number("the count", 1, MOST),
        metavar="N",
        help=f"puzzles of each bin, or of --givens (default: {COUNT})",
    )
    group.add_argument(
        "--csv", type=options.place, metavar="FILE", help="also write the result of each puzzle to a file"
    )


def check(args: argparse.Namespace) -> None:
    """Rejects options that exclude each other.

    Raises:
        SafelightError: two options exclude each other; it names them.
    """
    if not args.eval:
        for name in ("bin", "count", "csv"):
            if getattr(args, name) is not None:
                raise SafelightError(f"--{name} is for scoring a model; add --eval")
        return
    if args.make is not None:
        raise SafelightError("--make and --eval exclude each other; give one of them")
    if args.puzzles or args.file is not None:
        raise SafelightError("--eval makes its own puzzles; leave out PUZZLE and --file")
    if args.watch or args.raw:
        raise SafelightError("--eval shows no canvas; leave out --watch and --raw")
    if args.bin is not None and args.givens is not None:
        raise SafelightError("--bin and --givens exclude each other; give one of them")
    if args.csv is not None:
        if args.csv == "-" or Path(args.csv).is_dir():
            raise SafelightError("--csv needs the name of a file")
        options.require_folder(Path(args.csv))


@dataclass(frozen=True)
class Evaluation:
    """The scored model, its settings and the task: ``count`` puzzles per span. The seed sets puzzles and noise."""

    model: Model
    config: GenerationConfig
    spans: tuple[GivenRange, ...]
    count: int
    seed: int

    def __len__(self) -> int:
        return self.count * len(self.spans)


def run(args: argparse.Namespace, changes: dict[str, int | float | str]) -> int:
    """Scores the model of the options. After Ctrl+C, prints the results so far."""
    model = running.load(args, SUDOKU)
    config = options.settings(model.generation_defaults, changes)
    names = BINS if args.bin in (None, ALL) else (args.bin,)
    spans = (args.givens,) if args.givens is not None else tuple(GIVENS[name] for name in names)
    evaluation = Evaluation(model, config, spans, args.count or COUNT, running.seed(args))
    scores = Scoreboard()
    finished = score(evaluation, scores)
    if args.json:
        running.print_json(document(evaluation, scores, finished=finished))
    elif len(scores):
        screen = terminal.console(sys.stdout)
        title = f"{contender(model)}, fresh puzzles, seed {evaluation.seed}"
        screen.print(table(scores, title, screen.width))
    if args.csv is not None:
        write_text(Path(args.csv), scores.to_csv())
    if not finished:
        terminal.say(f"stopped; {len(scores)} of {len(evaluation)} puzzles were run")
        return 130
    return 0


def score(evaluation: Evaluation, scores: Scoreboard) -> bool:
    """Runs all puzzles, alternating between the spans, into ``scores``; returns False if stopped by Ctrl+C."""
    ticker = Ticker(len(evaluation))
    try:
        for index in range(evaluation.count):
            for span in evaluation.spans:
                made = make_puzzle(span, evaluation.seed, index)
                result = solve(evaluation.model, made.board, made.solution, evaluation.config, evaluation.seed)
                if result is None:
                    return False
                scores.add(result)
                ticker.show(scores)
    except KeyboardInterrupt:  # Ctrl+C while a puzzle was generated
        return False
    finally:
        ticker.clear()
    return True


def document(evaluation: Evaluation, scores: Scoreboard, *, finished: bool) -> dict[str, Any]:
    """Returns the settings of an evaluation and all of its results."""
    adapter = evaluation.model.adapter
    return {
        **running.model_names(evaluation.model),
        **({} if adapter is None else {"adapter_fingerprint": adapter.fingerprint}),
        "device": str(evaluation.model.device),
        "givens": [str(span) for span in evaluation.spans],
        "count": evaluation.count,
        "seed": evaluation.seed,
        "sampler": {knob.field: getattr(evaluation.config, knob.field) for knob in options.KNOBS},
        "finished": finished,
        **scores.document(),
    }


class Ticker:
    """Shows the current rates on standard error: a line that is overwritten on a terminal, elsewhere ten lines in
    all."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._changes = terminal.can_style(sys.stderr)

    def show(self, scores: Scoreboard) -> None:
        done = len(scores)
        if self._changes:
            line = f"{done} of {self._total} · {rates(scores)}"
            sys.stderr.write(terminal.CLEAR_LINE + line[: terminal.console(sys.stderr).width - 1])
            sys.stderr.flush()
        elif self._total >= 2 * PLAIN_LINES and done < self._total and done % (self._total // PLAIN_LINES) == 0:
            terminal.say(f"{done} of {self._total} puzzles; {rates(scores)}")

    def clear(self) -> None:
        """Erases the line."""
        if self._changes:
            sys.stderr.write(terminal.CLEAR_LINE)
            sys.stderr.flush()


def contender(model: Model) -> str:
    """Returns the name of the model, with its adapter's if it has one."""
    return model.name if model.adapter is None else f"{model.name} + {model.adapter.name}"


def solve(
    model: Model,
    puzzle: str,
    solution: str,
    config: GenerationConfig,
    seed: int,
    observe: running.Observer | None = None,
) -> Result | None:
    """Returns the model's answer to a puzzle; None if stopped by Ctrl+C."""
    ids = model.chat_ids([{"role": "user", "content": sudoku.to_prompt(puzzle)}])
    outcome = running.run(model, ids, config, seed, observe)
    if outcome.stopped:
        return None
    seconds = outcome.prefill_seconds + outcome.seconds
    return Result(puzzle, sudoku.read_answer(outcome.text), solution, outcome.steps, seconds, contender(model))


def table(scores: Scoreboard, title: str, columns: int) -> Table:
    """Returns the table of results by bin, for a terminal of ``width`` columns."""
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
    """Returns the current rate of every bin with results, on one line."""
    return " · ".join(f"{row.bin} {row.solved}/{row.count} {percent(row.rate)}" for row in scores.rows_to_show())
