"""``safelight bench``: measures how fast a model runs on this machine. ``engine.benchmarks`` measures; this prints."""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from app.cli import bench_writing, options, running, terminal, window
from engine import SKILLS, SafelightError, catalog

if TYPE_CHECKING:
    from engine.benchmarks.decode import DecodingResult
    from engine.benchmarks.generation import BenchResult
    from engine.benchmarks.parallel import ParallelResult
    from engine.benchmarks.step import ShapeResult
    from engine.memory.device import Placement
    from engine.memory.plan import Plan
    from engine.models.folder import ModelFolder

EPILOG = """\
Runs the model's own tasks: Sudoku puzzles for the Sudoku model, held-out tasks for the skills model, general questions
for any other. The same seed gives the same prompts.

--parallel N answers the prompts one at a time, then with two runs at once, and so on up to N. It repeats this several
times and shows how much faster several runs at once are.

--prompt-tokens N reads a prompt of N tokens and writes behind it, a token a pass, whatever the model's own decoder is.
The likeliest token is taken each time, and the text does not end before its length.

--shape needs no model. It makes a model of that shape from random packed weights, checks it against the plain oracle,
and times 16 forced steps a canvas and their parts. A CPU takes one canvas and one step more; --steps takes fewer. With
--parallel N, it also times steps of several runs in one pass. Progress goes to standard error. Shapes without denoising
steps (wedlm-8b, nemotron-3b) are timed in passes of 1, 8, 16 and 32 rows.

examples:
  safelight bench --model safelight-sudoku --runs 20
  safelight bench --json --window
  safelight bench --parallel 4
  safelight bench --prompt-tokens 512 --max-new-tokens 256 --threads 2 --runs 3 --model ~/Downloads/model-Q4_K_M.gguf
  safelight bench --shape 26b-a4b --random-weights --context 1024 --compare transformers
  safelight bench --shape 26b-a4b --random-weights --quantization int4 --context 256 --steps 3 --device cpu
"""
LAUNCH = "from app.main import measure_first_paint; print(measure_first_paint())"
LONGEST_LAUNCH = 120.0  # seconds
LEAST_PAUSE = 1.0  # seconds between two lines of progress
Row = tuple[str, str, str]  # measure, value, unit


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "bench", help="measure speed and memory", description="Measure speed and memory on this machine.", epilog=EPILOG
    )
    parser.add_argument(
        "--runs",
        type=options.number("the runs", 1, 10_000),
        default=10,
        metavar="N",
        help="(default: 10)",
    )
    parser.add_argument(
        "--parallel",
        type=options.number("the runs at once", 1, 64),
        metavar="N",
        help="compare up to N runs at once with one at a time",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--window", action="store_true", help="also time the window from launch to first paint")
    bench_writing.add(parser)
    shape = parser.add_argument_group("a shape with random weights")
    shape.add_argument(
        "--shape",
        type=options.place,
        metavar="ID_OR_DIR",
        help="26b-a4b, wedlm-8b, nemotron-3b, or a folder with a config.json",
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
        "--int8",
        action="append",
        choices=("linears", "head", "soft"),
        default=[],
        metavar="PRODUCT",
        help="round activations of linears, head or soft (the soft embedding) to int8; may be repeated",
    )
    shape.add_argument("--compare", choices=("transformers",), help="the same steps by transformers, in the same run")
    options.add_model(parser, SKILLS)
    options.add_sampler(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.shape is not None:
        if args.prompt_tokens is not None:
            raise SafelightError("--prompt-tokens needs a model; leave out --shape")
        return _run_shape(args)
    if args.random_weights or args.compare or args.steps is not None or args.int8:
        names = "--random-weights, --steps, --int8 and --compare"
        raise SafelightError(f"{names} go with --shape; give one, such as --shape 26b-a4b")
    if args.prompt_tokens is not None:
        return bench_writing.run(args)
    changes = options.sampler_changes(args)
    if args.parallel is not None:
        return _run_parallel(args, changes)
    launch = first_paint_seconds() if args.window else None  # before torch fills the memory
    model = running.load(args, SKILLS)
    config = options.settings(model.generation_defaults, changes)
    from engine.benchmarks.generation import measure  # imports torch

    with terminal.note(f"Running {model.name} {args.runs} times …"):
        result = measure(model, args.runs, running.seed(args), config)
    if args.json:
        record = result.as_dict() | running.model_names(model)
        if launch is not None:
            record["window_seconds"] = launch
        running.print_json(record)
    else:
        _print_table(result, launch)
    return 0


def _run_parallel(args: argparse.Namespace, changes: dict[str, Any]) -> int:
    if args.window:
        raise SafelightError("--window is timed alone; leave out --parallel")
    model = running.load(args, SKILLS)
    config = options.settings(model.generation_defaults, changes)
    from engine.benchmarks.parallel import measure_parallel  # imports torch

    with terminal.note(f"Running {model.name}, up to {args.parallel} runs at once …"):
        result = measure_parallel(model, args.parallel, args.runs, running.seed(args), config)
    if args.json:
        running.print_json(result.as_dict() | running.model_names(model))
    else:
        _print_parallel(result)
    return 0


def _run_shape(args: argparse.Namespace) -> int:
    if args.adapter is not None:
        raise SafelightError("--adapter needs a model with real weights; leave out --shape")
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
    from engine.models.folder import ModelFolder, plan
    from engine.quant import DEFAULT, Activations
    from engine.threads import use_threads

    opened = ModelFolder.open(folder)
    config = opened.config
    if args.canvas_length is not None:
        if not 1 <= args.canvas_length <= config.canvas_length:
            raise SafelightError(f"--canvas-length of {folder.name} must be from 1 to {config.canvas_length}")
        config = dataclasses.replace(config, canvas_length=args.canvas_length)
    if not config.denoises and (args.int8 or args.compare or args.parallel):
        raise SafelightError(f"{folder.name} has no denoising steps; leave out --int8, --compare and --parallel")
    needed = plan(folder, max(1, args.context), args.quantization, args.device, args.dtype)
    if not needed.precision.is_packed:  # it would fit unpacked, but packed weights are measured
        needed = plan(folder, max(1, args.context), DEFAULT, args.device, args.dtype)
    require_room(needed)
    placement = choose(args.device, needed.dtype)  # "auto" is bf16 for packed weights, also on a CPU
    if args.threads and placement.device.type == "cpu":
        use_threads(args.threads)
    if not config.denoises:
        return _run_decoding(args, opened, needed, placement)
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
            plan_bytes=sum(parts(opened.family.build, text_alone, mode, max(1, args.context)).values()),
            report=_reporter(),
            activations=Activations(**dict.fromkeys(args.int8, True)),
            parallel=parallel,
        )
        if args.compare:
            compared = transformers_step_ms(folder, placement, max(1, args.context))
            result = dataclasses.replace(result, compared=compared)
    if args.json:
        running.print_json(result.as_dict())
    else:
        _print_shape(result)
    return 0


def _run_decoding(args: argparse.Namespace, opened: ModelFolder, needed: Plan, placement: Placement) -> int:
    """Measures a decoder without denoising steps: passes of few rows."""
    from engine.benchmarks.decode import PASSES, measure_decoding  # imports torch

    name, passes = opened.path.name, args.steps or PASSES
    with terminal.note(f"Measuring {name} on {placement.device} …"):
        result = measure_decoding(
            name,
            opened.family,
            opened.config,
            needed.precision,
            placement,
            args.context,
            passes,
            needed.total_bytes,
            _reporter(),
        )
    if args.json:
        running.print_json(result.as_dict())
    else:
        _print_decoding(result)
    return 0


def _reporter() -> Callable[[str], None]:
    """Prints progress to standard error, at most a line per second: steps on a GPU take milliseconds."""
    last = time.monotonic()

    def report(what: str) -> None:
        nonlocal last
        if time.monotonic() - last >= LEAST_PAUSE:
            last = time.monotonic()
            terminal.say(what)

    return report


def first_paint_seconds() -> float:
    """Returns the seconds from launching a new process to its first painted window.

    Raises:
        SafelightError: no display, or the window did not appear.
    """
    if sys.platform.startswith(("linux", "freebsd")) and window.needs_xcb(os.environ):
        window.require_libraries()
    launch = ["--first-paint"] if getattr(sys, "frozen", False) else ["-c", LAUNCH]  # a bundle has no interpreter
    try:
        done = subprocess.run(
            [sys.executable, *launch], capture_output=True, encoding="utf-8", errors="replace", timeout=LONGEST_LAUNCH
        )
    except subprocess.TimeoutExpired:
        raise SafelightError(f"the window did not come up within {LONGEST_LAUNCH:.0f} s") from None
    try:
        return float(done.stdout.split()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise SafelightError(f"the window did not come up: {last}") from None


def _print_shape(result: ShapeResult) -> None:
    path = "one CUDA graph a step" if result.graph else f"plain path: {result.plain_reason}"
    rows = [
        ("experts", result.precision["experts"] or "not packed", ""),
        ("activations in int8", ", ".join(result.int8) or "none", ""),
        ("context", str(result.context), "tokens"),
        *_threads_rows(result),
        ("its prefill", f"{result.prefill_ms:.1f}", "ms"),
        ("run as", "", path),
        ("denoising step, median", f"{result.step_ms_median:.2f}", "ms"),
        ("denoising step, 95th percentile", f"{result.step_ms_p95:.2f}", "ms"),
        ("a first step that commits, median", f"{result.commit_and_step_ms_median:.2f}", "ms"),
        *((f"  {part}", f"{ms:.2f}", "ms") for part, ms in result.parts_ms.items()),
        ("weights read a step", f"{result.weight_bytes / 1e9:.2f}", "GB"),
        ("read rate", f"{result.read_gb_s:.0f}", "GB/s"),
        ("a copy on this device", f"{result.bandwidth_gb_s:.0f}", "GB/s, read and written"),
        ("share of the memory floor", f"{100 * result.floor_share:.0f}", "%"),
        ("at 16 steps a canvas", f"{result.tokens_per_second:.0f}", "tokens/s"),
        *(
            (f"a step of {row.runs} at once, median", f"{row.step_ms_median:.2f}", f"ms, {row.ratio:.2f}× one alone")
            for row in result.together[1:]
        ),
        *((f"error of {layer} against the oracle", f"{100 * e:.2f}", "%") for layer, e in result.oracle_error.items()),
    ]
    rows += _memory_rows(result)
    if result.compared is not None:
        theirs = result.compared["step_ms"]
        rows.append(
            (result.compared["by"], f"{theirs:.2f}", f"ms, {result.compared['dtype']}, {result.compared['cache']}")
        )
        rows.append(("faster by", f"{theirs / result.step_ms_median:.1f}", "times"))
    _print_rows(f"{result.shape} with random weights on {result.device}", rows)


def _print_decoding(result: DecodingResult) -> None:
    packed = ", ".join(f"{part} {scheme}" for part, scheme in result.precision.items() if scheme)
    rows = [
        ("packed", packed or "nothing", ""),
        ("context", str(result.context), "tokens"),
        *_threads_rows(result),
        ("run as", "", "Triton kernels" if result.plain_reason is None else f"plain path: {result.plain_reason}"),
        *(
            (f"a pass of {one.rows}, median", f"{one.ms_median:.2f}", f"ms; {100 * one.floor_share:.0f} % of the floor")
            for one in result.passes
        ),
        ("weights read a pass", f"{result.weight_bytes / 1e9:.2f}", "GB"),
        ("a copy on this device", f"{result.bandwidth_gb_s:.0f}", "GB/s, read and written"),
    ]
    _print_rows(f"{result.shape} with random weights on {result.device}", rows + _memory_rows(result))


def _threads_rows(result: ShapeResult | DecodingResult) -> list[Row]:
    return [("threads", str(result.threads), "")] if result.threads else []


def _memory_rows(result: ShapeResult | DecodingResult) -> list[Row]:
    rows = []
    if result.peak_memory_mb is not None:
        rows.append(("peak memory", f"{result.peak_memory_mb / 1e3:.2f}", f"GB, {result.peak_memory_note}"))
    if result.plan_bytes is not None:
        share = "" if result.peak_of_plan is None else f"; the peak is {100 * result.peak_of_plan:.1f} % of it"
        rows.append(("planned", f"{result.plan_bytes / 1e9:.2f}", f"GB{share}"))
    if result.device_memory_mb is not None:
        taken = f"{result.device_memory_mb / 1e3:.2f}"
        rows.append(("taken on the device", taken, "GB, by all programs, contexts included"))
    return rows


def _print_table(result: BenchResult, launch: float | None) -> None:
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
        ("tokens per pass", f"{result.tokens_per_forward:.2f}", "tokens/pass"),
        ("tokens per second", f"{result.tokens_per_second:.1f}", "tokens/s"),
        ("peak memory", memory, f"MB, {result.peak_memory_note}" if result.peak_memory_mb else result.peak_memory_note),
        ("runs", str(result.runs), ""),
    ]
    if launch is not None:
        rows.append(("launch to first painted window", f"{launch:.2f}", "s"))
    _print_rows(f"{result.model} on {result.device}", rows)


def _print_parallel(result: ParallelResult) -> None:
    columns = ("runs at once", "tokens/s", "steps/s", "seconds a run", "to one at a time")
    table = terminal.table(f"{result.model} on {result.device}, {result.prompts} prompts", *columns)
    for row in result.rows:
        table.add_row(
            str(row.runs),
            f"{row.tokens_per_second:.0f}",
            f"{row.steps_per_second:.0f}",
            f"{row.run_seconds:.3f}",
            f"{row.ratio:.2f}×",
        )
    terminal.console(sys.stdout).print(table)


def _print_rows(title: str, rows: list[Row]) -> None:
    """Prints a table of measures with their values and units."""
    table = terminal.table(title, "measure", "value", "unit")
    table.columns[2].justify = "left"
    for row in rows:
        table.add_row(*row)
    terminal.console(sys.stdout).print(table)
