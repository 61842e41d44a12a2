"""``safelight tune``: finds the acceptance rule with the fewest steps that loses no right answers. Knows no torch."""

from __future__ import annotations

import argparse
import csv
import io
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

import engine
from app.cli import options, running, terminal
from app.cli.loading import chosen
from app.cli.race import require_here
from app.cli.stopping import STOPPED, stopping
from app.cli.sudoku import givens_range
from app.state.intervals import percent
from app.state.race.prompts import RacePrompt, sudoku_prompts
from app.state.tuning import (
    Candidate,
    TunedRun,
    TuningRow,
    choice,
    grid,
    least_count,
    read_rule,
    record,
    rows_of,
    with_reference,
)
from engine import SUDOKU, SafelightError
from engine.catalog import MINI
from engine.config import LARGEST_SEED
from engine.decoders import ACCEPTANCE
from engine.files import parse_json, storable, write_text

if TYPE_CHECKING:
    from engine import Model

COUNT, MARGIN = 400, 1.0  # prompts; points
PROMPT, ANSWER = "prompt", "answer"  # the columns of a user's file
EPILOG = """\
Each step of block diffusion keeps some tokens by a rule. Every rule is tried with several thresholds, on the same
prompts with the same noise, next to the model's own. The setting with the fewest steps that is not lower than the
model's own is named at the end, as options for the other commands.

examples:
  safelight tune --file tasks.jsonl --model safelight-mini
  safelight tune --sudoku --givens 25-29 --count 200 --margin 3 --out rules.csv
  safelight tune --file tasks.jsonl --model safelight-base --rule entropy_bound_kept=0.1,0.2
"""


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "tune",
        help="find the settings with the fewest steps for a task",
        description="Find the acceptance rule that takes the fewest denoising steps without losing right answers.",
        epilog=EPILOG,
    )
    tasks = parser.add_mutually_exclusive_group(required=True)
    tasks.add_argument("--sudoku", action="store_true", help=f"fresh puzzles (default model: {SUDOKU})")
    tasks.add_argument(
        "--file",
        type=options.place,
        metavar="FILE",
        help="your own: JSON lines or CSV with a prompt and the answer that is right; - reads standard input",
    )
    parser.add_argument(
        "--givens", type=givens_range, metavar="LOW-HIGH", help="with --sudoku: number of givens (default: 25-50)"
    )
    parser.add_argument(
        "--count",
        type=options.number("the count", 1),
        metavar="N",
        help=f"prompts (default: {COUNT}; with --file: all)",
    )
    parser.add_argument(
        "--margin",
        type=options.real("the margin", 0.0, 50.0),
        default=MARGIN,
        metavar="POINTS",
        help="how many points of right answers a rule may lose at the most, by the 95 %% interval of the paired "
        f"difference (default: {MARGIN:g})",
    )
    parser.add_argument(
        "--rule",
        action="append",
        metavar="RULE=X,X",
        help=f"these thresholds of a rule only; may be repeated. Rules: {', '.join(ACCEPTANCE)}",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--out", type=options.place, metavar="FILE", help="also write the table as CSV")
    options.add_model(parser, MINI)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.givens is not None and not args.sudoku:
        raise SafelightError("--givens is for puzzles; add --sudoku")
    if args.out is not None:
        options.require_folder(Path(args.out))
    seed, margin = running.seed(args), args.margin / 100
    chosen = [candidate for text in args.rule or () for candidate in read_rule(text)]
    prompts = _prompts(args, seed)
    model = _load(args, SUDOKU if args.sudoku else MINI)
    defaults = model.generation_defaults
    candidates = with_reference(defaults, chosen) if chosen else grid(defaults)
    if least_count(margin) > len(prompts):
        terminal.say(
            f"with fewer than {least_count(margin):,} prompts nothing can be shown to within {args.margin:g} points; "
            "raise --count or --margin"
        )
    with stopping() as stop:
        rows = rows_of(_run_all(model, prompts, candidates, seed, stop))
        stopped = stop.is_set()
    if args.out is not None:
        write_text(Path(args.out), _csv([record(row, margin) for row in rows]))
    if args.json:
        best = choice(rows, margin).candidate.title if rows and not stopped else None
        shown = {**running.names_of(model), "seed": seed, "margin": margin, "finished": not stopped, "chosen": best}
        running.print_json(shown | {"rows": [record(row, margin) for row in rows]})
    elif rows:
        _show(rows, margin, f"{model.name}, seed {seed}; intervals of 95 %", is_finished=not stopped)
    if stopped:
        terminal.say("stopped; the rules are compared on the prompts that all of them answered")
        return STOPPED
    return 0


def _run_all(
    model: Model, prompts: Sequence[RacePrompt], candidates: Sequence[Candidate], seed: int, stop: threading.Event
) -> dict[Candidate, list[TunedRun]]:
    """Answers each prompt by all candidates, with the same noise, until ``stop`` is set."""
    runs: dict[Candidate, list[TunedRun]] = {candidate: [] for candidate in candidates}
    with terminal.progress("Tuning") as show:
        for index, prompt in enumerate(prompts):
            ids = model.chat_ids([{"role": "user", "content": prompt.text}])
            for candidate in candidates:
                config = model.generation_defaults.replace(**candidate.changes)
                events = engine.generate(model, ids, config, (seed + index) % (LARGEST_SEED + 1), stop)
                outcome = running.follow(events, config)
                if stop.is_set():
                    return runs
                is_right = bool(prompt.is_right(model.tokenizer.decode(outcome.tokens)))
                runs[candidate].append(TunedRun(is_right, outcome.steps))
            show((index + 1) / len(prompts))
    return runs


def _prompts(args: argparse.Namespace, seed: int) -> Sequence[RacePrompt]:
    """Returns the prompts of the options, each with a check of its answer.

    Raises:
        SafelightError: a file has no prompts.
    """
    if args.file is not None:
        return own_tasks(*options.read_text(args.file))[: args.count]
    return list(sudoku_prompts(args.count or COUNT, seed, args.givens))


def own_tasks(text: str, name: str) -> list[RacePrompt]:
    """Reads prompts and their expected answers, from JSON lines or CSV; other fields are ignored.

    Args:
        name: of the file, in messages.

    Raises:
        SafelightError: a line has no prompt or no answer, or there are no lines.
    """
    tasks: list[RacePrompt] = []
    for where, row in (_json_lines if text.lstrip()[:1] == "{" else _csv_rows)(text, name):
        prompt, answer = row.get(PROMPT), row.get(ANSWER)
        if not isinstance(prompt, str) or not isinstance(answer, str) or not prompt.strip():
            raise SafelightError(f"{where} has no {PROMPT} and {ANSWER}; give both as text")
        tasks.append(RacePrompt(storable(prompt), answer=storable(answer)))
    if not tasks:
        raise SafelightError(f"{name} holds no prompts; write one a line, with its answer")
    return tasks


def _json_lines(text: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{name}, line {number}"
            value = parse_json(line, where, surrogates=True)
            yield where, value if isinstance(value, dict) else {}


def _csv_rows(text: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            yield f"{name}, line {reader.line_num}", row
    except csv.Error as error:
        raise SafelightError(f"{name}, line {reader.line_num}: {error}") from None


def _load(args: argparse.Namespace, usual: str) -> Model:
    """Loads the model.

    Raises:
        SafelightError: it has no acceptance rules, as it does not write by block diffusion.
    """
    require_here(chosen(args, usual))
    model = running.load(args, usual)
    if not model.config.denoises:
        raise SafelightError(f"{model.name} does not write by block diffusion, so it has no such rules; try {MINI}")
    return model


def _csv(records: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    flat = [{name: value for key, field in one.items() for name, value in _ends(key, field)} for one in records]
    writer = csv.DictWriter(text, list(flat[0]) if flat else [])
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _ends(name: str, value: Any) -> list[tuple[str, Any]]:
    """Returns an interval as two columns."""
    return [(f"{name}_low", value[0]), (f"{name}_high", value[1])] if isinstance(value, tuple) else [(name, value)]


def _show(rows: Sequence[TuningRow], margin: float, heading: str, *, is_finished: bool) -> None:
    """Prints the rows, the test in words, and the choice."""
    screen, usual = terminal.console(sys.stdout), rows[0]
    table = terminal.table(heading, "rule", "prompts", "right", "steps", "share", "difference", "not lower")
    for row in rows:
        (low, high), (fast, slow), (less, more) = row.rate_interval, row.ratio_interval, row.difference_interval
        own_cells = (f"{row.count:,}", f"{percent(row.rate)} ({100 * low:.1f}–{100 * high:.1f})", f"{row.steps:.2f}")
        paired = (
            f"{percent(row.ratio)} ({100 * fast:.0f}–{100 * slow:.0f})",
            f"{100 * row.difference:+.1f} ({100 * less:+.1f} to {100 * more:+.1f})",
            "yes" if row.is_not_lower(margin) else "no",
        )
        table.add_row(row.candidate.title, *own_cells, *("–––" if row is usual else paired))
    screen.print(table)
    lines = [
        "steps: denoising steps of an answer, on average; share: of those of the model's own rule",
        f"difference: points of right answers above the model's own rule ({usual.candidate.title}), on equal prompts",
        f"not lower: the 95 % interval of the paired difference (Tango's score) lies above -{100 * margin:g} points",
    ]
    best = choice(rows, margin)
    if is_finished and best is usual:
        lines.append("no faster rule is shown to lose no right answers, so that the one of the model stays.")
    elif is_finished:
        settings = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in best.candidate.changes.items())
        lines.append(
            f"“{best.candidate.title}” takes {best.steps:.2f} steps in place of {usual.steps:.2f}, with "
            f"{percent(best.rate)} right in place of {percent(usual.rate)}: {settings}"
        )
    screen.print(Text("\n".join(lines), "dim"))
