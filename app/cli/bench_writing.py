"""``safelight bench --prompt-tokens``: how fast a model reads a prompt, and writes token by token behind it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from app.cli import options, running, terminal
from engine import SKILLS, SafelightError
from engine.config import MOST_POSITIONS

if TYPE_CHECKING:
    from engine.benchmarks.writing import WritingResult

NEW_TOKENS = 256


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompt-tokens",
        type=options.number("the prompt's tokens", 1, MOST_POSITIONS),
        metavar="N",
        help="time reading a prompt of N tokens, and writing --max-new-tokens (default: 256), one a pass",
    )


def run(args: argparse.Namespace) -> int:
    if args.window or args.parallel is not None:
        raise SafelightError("--prompt-tokens is timed alone; leave out --window and --parallel")
    changes = options.sampler_changes(args)
    new_tokens = int(changes.pop("max_new_tokens", NEW_TOKENS))
    if changes:
        raise SafelightError("--prompt-tokens takes the likeliest tokens; leave out all sampler options but its length")
    model = running.load(args, SKILLS)
    from engine.benchmarks.writing import measure_writing  # imports torch

    with terminal.note(f"Running {model.name} {args.runs} times …"):
        result = measure_writing(model, args.prompt_tokens, new_tokens, args.runs)
    if args.json:
        running.print_json(result.as_dict() | running.model_names(model))
    else:
        _print(result)
    return 0


def _print(result: WritingResult) -> None:
    packed = ", ".join(f"{part} {scheme}" for part, scheme in result.precision.items() if scheme)
    table = terminal.table(f"{result.model} on {result.device}", "measure", "value", "unit")
    table.columns[2].justify = "left"
    table.add_row("number type", result.dtype, "")
    table.add_row("packed", packed or "nothing", "")
    table.add_row("threads", str(result.threads), "")
    table.add_row(f"reading {result.prompt_tokens} tokens", f"{result.prefill_tokens_per_second:.1f}", "tokens/s")
    table.add_row(f"writing {result.new_tokens} tokens", f"{result.decode_tokens_per_second:.1f}", "tokens/s")
    table.add_row("runs", str(len(result.runs)), "medians are given")
    terminal.console(sys.stdout).print(table)
