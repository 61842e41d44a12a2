"""``safelight bench``: measures how fast a model runs on this machine. ``engine.benchmarks`` measures; this prints."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

from app.cli import options, running, terminal
from engine import SafelightError, catalog
from engine.catalog import MINI
from engine.config import MAX_POSITIONS

EPILOG = """\
Runs the model's own tasks: puzzles, examples of its tasks, or general questions, the same for the same seed.
--prompt-tokens N reads a prompt of N tokens instead and writes behind it, a token a pass, whatever its own decoder is.

--shape needs no model. It makes one of that shape from random packed weights, checks its kernels against the plain
oracle, and times 16 forced steps a canvas and their parts. A CPU takes one canvas; --steps takes fewer.

examples:
  safelight bench --model safelight-sudoku --runs 20
  safelight bench --prompt-tokens 512 --max-new-tokens 256 --threads 2 --runs 3 --model ~/Downloads/model-Q4_K_M.gguf
  safelight bench --shape 26b-a4b --random-weights --context 1024 --compare transformers
  safelight bench --shape 26b-a4b --random-weights --quantization int4 --context 256 --steps 3 --device cpu
"""
NEW_TOKENS = 256


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands, "bench", run, "measure speed and memory", "Measure speed and memory on this machine.", EPILOG
    )
    parser.add_argument(
        "--runs", type=options.number("the runs", 1, 10_000), default=10, metavar="N", help="(default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument(
        "--prompt-tokens",
        type=options.number("the prompt's tokens", 1, MAX_POSITIONS),
        metavar="N",
        help=f"time reading a prompt of N tokens, and writing --max-new-tokens (default: {NEW_TOKENS}), one a pass",
    )
    shape = parser.add_argument_group("a shape with random weights")
    shape.add_argument(
        "--shape", type=options.place, metavar="ID_OR_DIR", help="26b-a4b, or a folder with a config.json"
    )
    shape.add_argument(
        "--random-weights",
        action="store_true",
        help="required with --shape: says that you know the answers mean nothing",
    )
    shape.add_argument(
        "--context", type=options.number("the context", 0), default=1024, metavar="N", help="tokens (default: 1024)"
    )
    shape.add_argument(
        "--steps", type=options.number("the steps", 1, 1000), metavar="N", help="forced steps a canvas (default: 16)"
    )
    shape.add_argument(
        "--parallel",
        type=options.number("the runs at once", 1, 64),
        metavar="N",
        help="also steps of up to N runs in one pass",
    )
    shape.add_argument("--compare", choices=("transformers",), help="the same steps by transformers, in the same run")
    options.add_model(parser, MINI)
    options.add_sampler(parser)


def run(args: argparse.Namespace) -> int:
    if args.shape is not None:
        return _run_shape(args)
    if args.random_weights or args.compare or args.parallel is not None or args.steps is not None:
        names = "--random-weights, --steps, --parallel and --compare"
        raise SafelightError(f"{names} go with --shape; give one, such as --shape 26b-a4b")
    return _run_model(args) if args.prompt_tokens is None else _run_writing(args)


def _run_model(args: argparse.Namespace) -> int:
    changes = options.sampler_changes(args)
    model = running.load(args, MINI)
    config = options.settings(model.generation_defaults, changes)
    from engine.benchmarks.generation import measure  # imports torch

    with terminal.note(f"Running {model.name} {args.runs} times …"):
        result = measure(model, args.runs, running.seed(args), config)
    return _finish(args, f"{model.name} on {result['device']}", result | running.names_of(model))


def _run_writing(args: argparse.Namespace) -> int:
    changes = options.sampler_changes(args)
    new_tokens = int(changes.pop("max_new_tokens", NEW_TOKENS))
    if changes:
        raise SafelightError("--prompt-tokens takes the likeliest tokens; leave out all sampler options but its length")
    model = running.load(args, MINI)
    from engine.benchmarks.generation import measure_writing  # imports torch

    with terminal.note(f"Running {model.name} {args.runs} times …"):
        result = measure_writing(model, args.prompt_tokens, new_tokens, args.runs)
    return _finish(args, f"{model.name} on {result['device']}", result | running.names_of(model))


def _run_shape(args: argparse.Namespace) -> int:
    for option in ("adapter", "prompt_tokens"):
        if getattr(args, option) is not None:
            raise SafelightError(f"--{option.replace('_', '-')} needs a model with real weights; leave out --shape")
    if not args.random_weights:
        raise SafelightError("--shape is measured with random weights; add --random-weights")
    folder = catalog.resolve(args.shape, shapes=True)
    # imports torch, so after the arguments are checked
    from engine.benchmarks.step import STEPS, measure_shape
    from engine.benchmarks.transformers import transformers_step_ms
    from engine.memory.device import choose
    from engine.memory.footprint import Mode, parts
    from engine.memory.plan import require_room
    from engine.memory.several import further_run
    from engine.models.folder import ModelFolder
    from engine.quant import DEFAULT
    from engine.threads import use_threads

    opened = ModelFolder.open(folder)
    config = opened.config
    if not config.denoises:
        raise SafelightError(f"{folder.name} has no denoising steps to measure; give another shape, such as 26b-a4b")
    if args.canvas_length is not None:
        if not 1 <= args.canvas_length <= config.canvas_length:
            raise SafelightError(f"--canvas-length of {folder.name} must be from 1 to {config.canvas_length}")
        config = dataclasses.replace(config, canvas_length=args.canvas_length)
    context = max(1, args.context)
    needed = opened.plan(context, args.quantization, args.device, args.dtype)
    if not needed.precision.is_packed:  # it would fit unpacked, but packed weights are measured
        needed = opened.plan(context, DEFAULT, args.device, args.dtype)
    require_room(needed)
    placement = choose(args.device, needed.dtype)  # "auto" is bf16 for packed weights, also on a CPU
    if args.threads and placement.device.type == "cpu":
        use_threads(args.threads)
    parallel = args.parallel or 1
    mode = Mode.on_device(placement.device, placement.dtype, needed.precision)
    text_alone = dataclasses.replace(config, vision=None)  # as the network that is built
    more = sum(further_run(config, mode, args.context, running) for running in range(1, parallel))
    if needed.total_bytes + more > needed.free_bytes:
        raise SafelightError(
            f"{parallel} runs at once do not fit in memory with the weights; give a lower --parallel or --context"
        )
    with terminal.note(f"Measuring {folder.name} on {placement.device} …"):
        result = measure_shape(
            folder.name,
            config,
            needed.precision,
            placement,
            args.context,
            args.steps or STEPS,
            plan_bytes=sum(parts(opened.family.build, text_alone, mode, context).values()),
            report=terminal.say if placement.device.type == "cpu" else lambda _: None,  # a step takes seconds
            parallel=parallel,
        )
        if args.compare:
            result["compared"] = transformers_step_ms(folder, placement, context)
    return _finish(args, f"{folder.name} with random weights on {result['device']}", result)


def _finish(args: argparse.Namespace, title: str, record: dict[str, Any]) -> int:
    """Prints a record, as JSON or as a table; its names say their units."""
    if args.json:
        running.print_json(record)
        return 0
    table = terminal.table(title, "measure", "value")
    for name, value in _apart(record):
        table.add_row(name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value))
    terminal.console(sys.stdout).print(table)
    return 0


def _apart(record: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yields the values of a record and of the records in it, each with its whole name."""
    for name, value in record.items():
        parts = value if isinstance(value, list) else [value]
        inner = [each for each in parts if isinstance(each, dict)]
        if not inner and value not in (None, []):
            yield name, ", ".join(value) if isinstance(value, list) else value
        for each in inner:
            yield from ((f"{name}: {key}", one) for key, one in _apart(each))
