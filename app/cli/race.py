"""``safelight race``: answers the same prompts with several models or decoders and compares them. Knows no torch."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.text import Text

from app.cli import options, running, terminal
from app.cli.loading import ChosenBackend
from app.cli.race_lanes import read_lane, require_here
from app.cli.stopping import STOPPED, stopping
from app.state.intervals import percent
from app.state.race.lanes import LaneSpec, require_different
from app.state.race.prompts import MOST_PROMPTS, RacePrompt, own_prompts, sudoku_prompts
from app.state.race.running import LaneRun, RaceRun
from app.state.race.scores import Interval, LaneScore, RaceScores, race_document, results_of
from engine import SIGHT, SKILLS, SUDOKU, SafelightError
from engine.files import write_text
from engine.pictures import read_picture
from engine.service import RaceRequest, Racing
from engine.service.requests import FEWEST_LANES, MOST_LANES
from engine.tasks.sudoku import BINS
from engine.text.message import message_of

EPILOG = f"""\
A lane is MODEL:DECODER,setting=value, with any number of settings; what is left out is the model's default. Without
--lane, each decoder of --model is a lane. Lanes take turns, one pass each; times are a lane's own, without reading the
prompt. {FEWEST_LANES} to {MOST_LANES} lanes.

examples:
  safelight race "Reverse the word robot." --model safelight-masked
  safelight race --prompts FILE --lane :block_diffusion,entropy-bound=0.5 --lane :block_diffusion,entropy-bound=0.02
  safelight race --sudoku 10 --bin hard --lane safelight-sudoku --lane safelight-base,adapter=sudoku-lora --json
"""


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "race",
        help="compare models and decoders",
        description="Answer the same prompts with several models or decoders, and compare speed and answers.",
        epilog=EPILOG,
    )
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="what to answer; - reads it from standard input")
    parser.add_argument(
        "--lane", action="append", metavar="LANE", help="MODEL:DECODER,setting=value; give one for each lane"
    )
    count = options.number("the count", 1, MOST_PROMPTS)
    parser.add_argument("--sudoku", type=count, metavar="N", help="instead of PROMPT, N fresh puzzles")
    parser.add_argument("--bin", choices=BINS, help="with --sudoku: puzzles of this kind (default: all, in turns)")
    parser.add_argument(
        "--prompts", type=options.place, metavar="FILE", help="instead of PROMPT, a file with one prompt on each line"
    )
    options.add_images(parser, "a picture to show before PROMPT")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--out", type=options.place, metavar="FILE", help="also write the answers as CSV")
    options.add_model(parser, SKILLS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    usual = SUDOKU if args.sudoku else SIGHT if args.image else SKILLS
    model = args.model or getattr(args, "window_model", None) or usual
    require_here(model)
    if args.out is not None:
        options.require_folder(Path(args.out))
    if args.adapter is not None:
        raise SafelightError("an adapter belongs to a lane; give it there, as adapter=NAME")
    seed = running.seed(args)
    prompts, count = _prompts(args, seed)
    lanes = [read_lane(text, model) for text in args.lane] if args.lane else _every_decoder(model)
    if not FEWEST_LANES <= len(lanes) <= MOST_LANES:
        raise SafelightError(f"a race has {FEWEST_LANES} to {MOST_LANES} lanes, not {len(lanes)}; give --lane for each")
    require_different(lanes)
    scores = RaceScores(tuple(lane.title for lane in lanes))
    with stopping() as stop:
        last = _race_all(args, lanes, prompts, count, seed, scores, stop)
        stopped = stop.is_set()
    if args.out is not None:
        write_text(Path(args.out), scores.to_csv())
    if args.json:
        asked = {name: getattr(args, name) for name in ("device", "dtype", "quantization", "threads")}
        asked |= {"images": args.image} if args.image else {}
        running.print_json(race_document(lanes, scores, {"seed": seed, **asked}, finished=not stopped))
    elif count == 1 and last is not None:
        _show_one(last, scores.lanes)
    elif scores.results:
        _show(scores, seed)
    if stopped:
        terminal.say(f"stopped; {scores.count} of {count} prompts were run")
        return STOPPED
    return 0


def _race_all(
    args: argparse.Namespace,
    lanes: Sequence[LaneSpec],
    prompts: Iterable[RacePrompt],
    count: int,
    seed: int,
    scores: RaceScores,
    stop: threading.Event,
) -> RaceRun | None:
    """Races on each prompt and adds the result to ``scores``, until ``stop`` is set; returns the last race.

    Raises:
        SafelightError: a model cannot be loaded, or a lane failed.
    """
    racing, race = Racing(ChosenBackend(args)), None
    with terminal.progress("Racing") as show:
        for index, prompt in enumerate(prompts):
            if stop.is_set():
                break
            request = RaceRequest(
                (message_of(prompt.text, prompt.pictures),),
                tuple(spec.lane() for spec in lanes),
                seed,
                keep=False,
                threads=args.threads,
                pictures=prompt.pictures,
                cancel=stop,
            )
            race = RaceRun.from_request(request)
            racing.run(request, None, race.take)
            failed = zip(scores.lanes, race.lanes, strict=True)
            problems = [race.problem, *(f"{title}: {lane.problem}" for title, lane in failed if lane.problem)]
            if problem := next(filter(None, problems), ""):
                raise SafelightError(problem)
            if not stop.is_set():
                scores.add(results_of(race, index, prompt))
            show((index + 1) / count)
    return race


def _prompts(args: argparse.Namespace, seed: int) -> tuple[Iterable[RacePrompt], int]:
    """Returns the prompts of the options and their number.

    Raises:
        SafelightError: no prompts are given, or by two options.
    """
    given = {
        "PROMPT": args.prompt,
        "--sudoku": args.sudoku,
        "--prompts": args.prompts,
    }
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        said = " and ".join(named) + " exclude each other; give one of them" if named else "give one of these: "
        raise SafelightError(said if named else said + ", ".join(given))
    if args.bin is not None and args.sudoku is None:
        raise SafelightError("--bin is for puzzles; add --sudoku")
    if args.image and args.prompt is None:
        raise SafelightError("--image needs a PROMPT; write one, or leave out --image")
    if args.sudoku is not None:
        return sudoku_prompts(args.sudoku, seed, BINS if args.bin is None else (args.bin,)), args.sudoku
    if args.prompts is not None:
        found = own_prompts(options.read_text(args.prompts)[0])
        return found, len(found)
    text = options.read_text("-")[0].rstrip("\n") if args.prompt == "-" else args.prompt
    if not text.strip():
        raise SafelightError("the prompt is empty; write something first")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SafelightError("the prompt is not valid UTF-8 text") from None
    return [RacePrompt(text, pictures=tuple(read_picture(Path(name)) for name in args.image))], 1


def _every_decoder(model: str) -> list[LaneSpec]:
    """Makes a lane for each decoder of a model.

    Raises:
        SafelightError: there is no such model, or it has only one decoder.
    """
    from engine import run_settings  # imports torch

    decoders = run_settings(model).decoders
    if len(decoders) < FEWEST_LANES:
        raise SafelightError(f"{model} has only one decoder; give --lane twice, with different models or settings")
    return [LaneSpec(model, decoder) for decoder in decoders[:MOST_LANES]]


def _show_one(race: RaceRun, titles: Sequence[str]) -> None:
    """Prints each lane's text with its figures."""
    screen = terminal.console(sys.stdout)
    for place, (title, lane) in enumerate(zip(titles, race.lanes, strict=True)):
        screen.print(Text(title, "bold"))
        screen.print(Text(terminal.printable(lane.text) or "(nothing)"))
        screen.print(Text(f"{_figures(lane)}{_agreement(race, place)}\n", "dim"))


def _figures(lane: LaneRun) -> str:
    found = lane.figures
    per = found.tokens_per_forward
    ratio = "" if per is None else f", {per:.2f} tokens per pass"
    return f"{found.tokens} tokens in {found.forwards} passes{ratio}, {found.seconds:.3f} s"


def _agreement(race: RaceRun, place: int) -> str:
    return f", {percent(race.agreement(place))} the same as lane 1" if place else ""


def _show(scores: RaceScores, seed: int) -> None:
    """Prints a row for each lane and, if there are several groups, the number of right answers by group."""
    screen = terminal.console(sys.stdout)
    heading = f"{scores.count} prompts, seed {seed}; intervals of 95 %, times of each lane alone"
    table = terminal.table(heading, "lane", "exact", "tokens/pass", "seconds", "tokens/s", "agreement")
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for row in scores.rows():
        table.add_row(*_cells(row))
    screen.print(table)
    groups = scores.groups
    if len(groups) > 1 and any(row.checked for row in scores.rows()):
        numbers = [str(place) for place, _ in enumerate(scores.lanes, start=1)]
        by_group = terminal.table("right answers by kind", "kind", *numbers)
        for group in groups:
            rows = {row.lane: row for row in scores.rows(group)}
            found = (rows.get(lane) for lane in scores.lanes)
            by_group.add_row(
                group.capitalize(), *("–" if row is None else f"{row.exact} of {row.checked}" for row in found)
            )
        named = (f"{number}: {lane}" for number, lane in zip(numbers, scores.lanes, strict=True))
        screen.print(Text(""), by_group, Text("\n".join(named), "dim"), sep="\n")


def _cells(row: LaneScore) -> tuple[str, ...]:
    exact = "–" if row.rate is None else f"{percent(row.rate)} ({_span(row.exact_interval, 100, 0)})"
    return (
        row.lane,
        exact,
        f"{row.tokens_per_forward:.2f} ({_span(row.tokens_per_forward_interval, 1, 2)})",
        f"{row.seconds:.3f} ({_span(row.seconds_interval, 1, 3)})",
        f"{row.tokens_per_second:.0f}",
        percent(row.agreement),
    )


def _span(ends: Interval, factor: float, digits: int) -> str:
    low, high = (f"{factor * end:.{digits}f}" for end in ends)
    return f"{low}–{high}"
