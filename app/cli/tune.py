"""``safelight tune``: finds the acceptance rule with the fewest steps that loses no right answers. Knows no torch."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from app.cli import options, running, terminal, tune_report
from app.cli.race_lanes import require_here
from app.cli.stopping import STOPPED, stopping
from app.cli.sudoku import givens_range
from app.cli.tune_runs import data_folder, header_of, placed, run_all, user_values
from app.presets.store import PresetStore
from app.presets.tuned import save_tuned
from app.state.tuning.candidates import grid, read_rule, reference_of, variations, with_reference
from app.state.tuning.plan import TuningPlan
from app.state.tuning.progress import FILE, opened_log
from app.state.tuning.result import FILE as RESULT
from app.state.tuning.result import TuningResult
from app.state.tuning.scores import TuningScores, least_count
from app.state.tuning.tasks import MOST_PROMPTS, USUAL_GIVENS, TuningTask, own_tasks
from engine import SIGHT, SKILLS, SUDOKU, SafelightError
from engine.config import ACCEPTANCE
from engine.errors import quoted

if TYPE_CHECKING:
    from engine import Model

COUNT, MARGIN = 1_000, 1.0  # prompts; points
EPILOG = """\
Each step of block diffusion keeps some tokens by a rule. Every rule is tried with several thresholds, on the same
prompts with the same noise, next to the model's own. First all rules answer few prompts; the better half goes on to
twice as many, until few are left for all. After the first round the best are also tried on a hotter canvas (t_max 1,
t_min 0.8), and with blocks that end once they stall (stall_steps 6). The setting with the fewest steps that is not
lower than the model's own becomes a preset, next to what else you have set in the window. With --table all rules answer
all prompts, and nothing else is varied.

After Ctrl+C the same command goes on. Decisions are read in one step, so that no rule changes them.

examples:
  safelight tune --skills
  safelight tune --skills --table --json > table.json
  safelight tune --skills --count 400 --margin 2
  safelight tune --sudoku --givens 25-29 --count 200 --margin 3
  safelight tune --drawings --table --rule entropy_bound_kept=0.1,0.2 --rule confidence_threshold=0.9
  safelight tune --file tasks.jsonl --model safelight-base
"""


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "tune",
        help="find the settings with the fewest steps for a task",
        description="Find the acceptance rule that takes the fewest denoising steps without losing right answers.",
        epilog=EPILOG,
    )
    tasks = parser.add_argument_group("task (one of these)")
    tasks.add_argument("--skills", action="store_true", help="small text tasks held out of training")
    tasks.add_argument("--sudoku", action="store_true", help=f"fresh puzzles (default model: {SUDOKU})")
    tasks.add_argument("--drawings", action="store_true", help=f"questions about drawings (default model: {SIGHT})")
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
        type=options.number("the count", 1, MOST_PROMPTS),
        metavar="N",
        help=f"prompts (default: {COUNT}; with --file: all)",
    )
    parser.add_argument(
        "--margin",
        type=_points,
        default=MARGIN,
        metavar="POINTS",
        help="how many points of right answers a rule may lose at the most, by the 95 %% interval of the paired "
        f"difference (default: {MARGIN:g})",
    )
    parser.add_argument("--table", action="store_true", help="run every rule on all prompts and print all of them")
    parser.add_argument(
        "--rule",
        action="append",
        metavar="RULE=X,X",
        help=f"these thresholds of a rule only; may be repeated. Rules: {', '.join(ACCEPTANCE)}",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument(
        "--out",
        type=options.place,
        metavar="FOLDER",
        help="where the runs and the result are kept (default: in Safelight's data)",
    )
    parser.add_argument("--no-save", action="store_true", help="make no preset")
    options.add_model(parser, SKILLS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    task = _task(args)
    count = min(args.count or MOST_PROMPTS, len(task.own)) if task.kind == "own" else args.count or COUNT
    chosen = [candidate for text in args.rule or () for candidate in read_rule(text)]
    model = _load(args, {"sudoku": SUDOKU, "drawings": SIGHT}.get(task.kind, SKILLS))
    defaults = model.generation_defaults
    candidates = with_reference(defaults, chosen) if chosen else grid(defaults)
    varied = () if args.table else variations(defaults)
    plan = TuningPlan(candidates, count, args.margin / 100, halves=not args.table, variations=varied)
    if least_count(plan.margin) > count:
        terminal.say(
            f"with fewer than {least_count(plan.margin):,} prompts nothing can be shown to within {args.margin:g} "
            "points; raise --count or --margin"
        )
    scores, header = TuningScores(reference_of(defaults)), header_of(model, task)
    with stopping() as stop, placed(args.out, header) as folder, opened_log(folder / FILE, header, scores) as log:
        run_all(model, plan, task, scores, log, stop)
        stopped = stop.is_set()
    shown = running.model_names(model)
    rows = scores.rows(plan.tried(scores), count)
    if not rows:
        terminal.say("stopped before the first prompt; run the same command again to go on")
        return STOPPED
    result = TuningResult(
        " + ".join(shown.values()), task.title, task.seed, plan.margin, tuple(rows), is_finished=not stopped
    )
    result.write(folder / RESULT)
    if not stopped and not args.no_save and result.chosen is not result.usual:
        result = dataclasses.replace(result, preset=save_tuned(PresetStore(data_folder()), result, user_values()))
        result.write(folder / RESULT)
    if args.json:
        running.print_json(result.document())
    else:
        tune_report.show(result)
    if stopped:
        terminal.say("stopped; run the same command again to go on")
        return STOPPED
    return 0


def _task(args: argparse.Namespace) -> TuningTask:
    """Returns the task of the options.

    Raises:
        SafelightError: none is given, or several; or a file has no prompts.
    """
    named = [name for name in ("skills", "sudoku", "drawings", "file") if getattr(args, name)]
    if len(named) != 1:
        asked = " and ".join(f"--{name}" for name in named)
        raise SafelightError(
            f"{asked} exclude each other; give one of them"
            if named
            else "give a task: --skills, --sudoku, --drawings or --file FILE"
        )
    if args.givens is not None and not args.sudoku:
        raise SafelightError("--givens is for puzzles; add --sudoku")
    seed = running.seed(args)
    if args.file is not None:
        return TuningTask("own", seed, own=own_tasks(*options.read_text(args.file)))
    if args.sudoku:
        return TuningTask("sudoku", seed, args.givens or USUAL_GIVENS)
    return TuningTask("skills" if args.skills else "drawings", seed)


def _load(args: argparse.Namespace, usual: str) -> Model:
    """Loads the model.

    Raises:
        SafelightError: it has no acceptance rules, as it does not write by block diffusion.
    """
    require_here(args.model or getattr(args, "window_model", None) or usual)
    model = running.load(args, usual)
    if not model.config.denoises:
        raise SafelightError(f"{model.name} does not write by block diffusion, so it has no such rules; try {SKILLS}")
    return model


def _points(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 50:
        raise argparse.ArgumentTypeError(
            f"the margin must be a number of points, above 0 and at most 50, not {quoted(text)}"
        )
    return value
