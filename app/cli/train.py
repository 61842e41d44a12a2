"""``safelight train sudoku``: trains an adapter for Sudoku. The engine trains; this parses options and prints."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import engine
from app.cli import options, running, terminal
from app.cli.stopping import STOPPED, stopping
from engine import BASE, catalog
from engine.training.adapter import (
    FORMS,
    STEPS,
    AdapterRun,
    TrainingEnded,
    TrainingMeasured,
    TrainingProgress,
    TrainingRecord,
    TrainingStarted,
    recipe_for,
)

EPILOG = """\
The model's weights do not change: the adapter is a set of LoRA matrices in PEFT's format. FOLDER gets the adapter, a
log (log.jsonl) and a checkpoint. If a run was stopped, the same command goes on from there.

Puzzles with a single solution are made as they are needed.

examples:
  safelight train sudoku --out runs/adapter
  safelight train sudoku --model ~/models/diffusiongemma-26B-A4B-it --quantization nf4 --out adapter --format digits
"""


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "train",
        run,
        "train an adapter that solves Sudoku",
        "Train an adapter that teaches a model Sudoku.",
        EPILOG,
    )
    whole = options.number
    parser.add_argument("task", choices=("sudoku",), metavar="TASK", help="what to teach: sudoku")
    parser.add_argument(
        "--out",
        type=options.place,
        required=True,
        metavar="FOLDER",
        help="the adapter's folder; new, or of a stopped run",
    )
    parser.add_argument(
        "--steps", type=whole("the steps", 1), default=STEPS, metavar="N", help=f"training steps (default: {STEPS})"
    )
    parser.add_argument("--rank", type=whole("the rank", 1), metavar="N", help="rank of the LoRA matrices")
    parser.add_argument("--rate", type=options.real("the rate", 0.0, 10.0), metavar="X", help="highest learning rate")
    parser.add_argument("--batch", type=whole("the batch", 1), metavar="N", help="examples a step")
    parser.add_argument(
        "--format",
        choices=FORMS,
        default="rows",
        help="how a solution is written: nine lines, or 81 digits (default: rows)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each record")
    measuring = parser.add_argument_group("measuring, on held-out puzzles")
    measuring.add_argument(
        "--eval-every",
        type=whole("the steps", 0),
        default=500,
        metavar="N",
        help="measure every N steps; 0: never (default: 500)",
    )
    model = parser.add_argument_group("model")  # without --adapter a new one is trained
    model.add_argument(
        "--model",
        type=options.place,
        metavar="DIR_OR_ID",
        help=f"a model folder or an embedded model (default: {BASE})",
    )
    model.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda or cuda:N (default: auto)")
    model.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="(default: auto)")
    options.add_quantization(model)
    options.add_seed(model)


def run(args: argparse.Namespace) -> int:
    from engine.models.folder import ModelFolder  # imports torch

    name = args.model or getattr(args, "window_model", None) or BASE
    recipe = recipe_for(ModelFolder.open(catalog.resolve(name)).config)
    changes: dict[str, Any] = {
        "rank": args.rank,
        "rate": args.rate,
        "batch": args.batch,
        "form": args.format,
    }
    plan = AdapterRun(
        model=name,
        out=Path(args.out),
        recipe=dataclasses.replace(recipe, **{field: value for field, value in changes.items() if value is not None}),
        steps=args.steps,
        eval_every=args.eval_every,
        seed=running.seed(args),
        device=args.device,
        dtype=args.dtype,
        quantization=args.quantization,
    )
    ended: TrainingEnded | None = None
    with stopping() as cancel:
        for record in engine.train_adapter(plan, cancel):
            if isinstance(record, TrainingEnded):
                ended = record
            elif args.json:
                running.print_json({"record": type(record).__name__, **vars(record)})
            else:
                print(in_words(record), flush=True)
    if ended is None or not ended.is_finished:
        step = 0 if ended is None else ended.step
        terminal.say(f"stopped at step {step} of {plan.steps}; run the same command again to go on")
        return STOPPED
    if not args.json:
        print(f"{ended.out} holds the adapter.")
    return 0


def in_words(record: TrainingRecord) -> str:
    """Formats a training record in one line."""
    match record:
        case TrainingStarted():
            begun = f"going on at step {record.step}" if record.step else "starting"
            return (
                f"training {record.parameters / 1e6:.2f} million parameters on {record.device}: takes about "
                f"{record.bytes_needed / 1e9:.1f} GB of {record.bytes_free / 1e9:.1f} GB free; {begun}"
            )
        case TrainingProgress():
            return (
                f"step {record.step} of {record.steps}: loss {record.loss:.4f}, causal {record.causal_loss:.4f}, "
                f"rate {record.rate:.2g}, {record.steps_per_second:.2f} steps/s"
            )
        case TrainingMeasured():
            return (
                f"step {record.step}, {record.count} held-out puzzles: {100 * record.exact:.1f} % solved, "
                f"{100 * record.cells:.1f} % of the blanks right, givens kept in {100 * record.givens_kept:.1f} %, "
                f"{record.steps_mean:.1f} steps on average"
            )
        case TrainingEnded():
            return f"step {record.step} of {record.steps}"
