"""``safelight race``: answers the same prompts with several models or decoders and compares them. Knows no torch."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from app.cli import options, running, terminal
from app.cli.loading import ChosenBackend, chosen
from app.cli.options import OPTIONS, check_changes, read_value
from app.cli.stopping import STOPPED, stopping
from app.cli.sudoku import givens_range
from app.state.intervals import percent
from app.state.race.prompts import LaneSpec, RacePrompt, own_prompts, sudoku_prompts
from app.state.race.running import RaceRun
from app.state.race.scores import Interval, RaceResult, as_csv, as_json, results_of, scores_of
from engine import SIGHT, SUDOKU, SafelightError
from engine.catalog import MINI
from engine.config import is_decoder
from engine.errors import quoted
from engine.files import write_text
from engine.pictures import read_picture
from engine.service import RaceRequest, Racing, is_remote
from engine.service.requests import FEWEST_LANES, MAX_LANES
from engine.text.message import message_of

ADAPTER = "adapter"
_NAMES = {option.flag.removeprefix("--"): name for name, option in OPTIONS.items() if name != "decoder"}
EPILOG = f"""\
A lane is MODEL:DECODER,setting=value, with any number of settings; what is left out is the model's default. Without
--lane, each decoder of --model is a lane. Lanes take turns, one pass each; times are a lane's own, without reading the
prompt. {FEWEST_LANES} to {MAX_LANES} lanes.

examples:
  safelight race "Reverse the word robot." --model safelight-masked
  safelight race --prompts FILE --lane :block_diffusion,entropy-bound=0.5 --lane :block_diffusion,entropy-bound=0.02
  safelight race --sudoku 10 --givens 25-29 --lane safelight-sudoku --lane safelight-base,adapter=sudoku-lora --json
"""


def read_lane(text: str, default: str) -> LaneSpec:
    """Reads ``MODEL:DECODER,setting=value``; each part is optional.

    Args:
        default: the model if none is named.

    Raises:
        SafelightError: a setting is unknown or out of range, or the model is another machine's.
    """
    whole, *settings = text.split(",")
    model, colon, decoder = whole.rpartition(":")
    if not colon or not is_decoder(decoder):  # a path may contain a colon
        model, decoder = whole, ""
    model = model or default
    require_here(model)
    if "\0" in model:
        raise SafelightError(f"{quoted(model)} cannot be a model's name: it contains a NUL character")
    changes: dict[str, Any] = {}
    adapter = ""
    for one in settings:
        name, sign, value = one.partition("=")
        if not sign:
            raise SafelightError(f"{quoted(one)} is not a setting of a lane; write it as name=value")
        if name == ADAPTER:
            adapter = value
        else:
            changes |= _change(name, value)
    check_changes(changes)
    return LaneSpec(model, decoder, changes, adapter)


def require_here(model: str) -> None:
    """Checks that a model runs on this machine.

    Raises:
        SafelightError: another machine runs the model.
    """
    if is_remote(model):
        raise SafelightError(f"{quoted(model)} runs on another machine; choose a model on this one")


def _change(name: str, value: str) -> dict[str, Any]:
    setting = _NAMES.get(name.replace("_", "-"))
    if setting is None:
        known = ", ".join((ADAPTER, *_NAMES))
        raise SafelightError(f"{quoted(name)} is not a setting of a lane; use {known}")
    try:
        return {setting: read_value(OPTIONS[setting], value)}
    except argparse.ArgumentTypeError as error:
        raise SafelightError(f"{name} of a lane: {error}") from None


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "race",
        run,
        "compare models and decoders",
        "Answer the same prompts with several models or decoders, and compare speed and answers.",
        EPILOG,
    )
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="what to answer; - reads it from standard input")
    parser.add_argument(
        "--lane", action="append", metavar="LANE", help="MODEL:DECODER,setting=value; give one for each lane"
    )
    count = options.number("the count", 1)
    parser.add_argument("--sudoku", type=count, metavar="N", help="instead of PROMPT, N fresh puzzles")
    parser.add_argument(
        "--givens", type=givens_range, metavar="LOW-HIGH", help="with --sudoku: number of givens (default: 25-50)"
    )
    parser.add_argument(
        "--prompts", type=options.place, metavar="FILE", help="instead of PROMPT, a file with one prompt on each line"
    )
    options.add_images(parser, "a picture to show before PROMPT")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--out", type=options.place, metavar="FILE", help="also write the answers as CSV")
    options.add_model(parser, MINI)


def run(args: argparse.Namespace) -> int:
    usual = SUDOKU if args.sudoku else SIGHT if args.image else MINI
    model = chosen(args, usual)
    require_here(model)
    if args.out is not None:
        options.require_folder(Path(args.out))
    if args.adapter is not None:
        raise SafelightError("an adapter belongs to a lane; give it there, as adapter=NAME")
    seed = running.seed(args)
    prompts, count = _prompts(args, seed)
    lanes = [read_lane(text, model) for text in args.lane] if args.lane else _every_decoder(model)
    titles = [lane.title for lane in lanes]
    if not FEWEST_LANES <= len(lanes) <= MAX_LANES:
        raise SafelightError(f"a race has {FEWEST_LANES} to {MAX_LANES} lanes, not {len(lanes)}; give --lane for each")
    if twice := next((title for title in titles if titles.count(title) > 1), None):
        raise SafelightError(f"two lanes are {twice}; give one of them another decoder or setting")
    results: list[RaceResult] = []
    with stopping() as stop:
        last = _race_all(args, lanes, prompts, count, results, stop)
        stopped = stop.is_set()
    if args.out is not None:
        write_text(Path(args.out), as_csv(results))
    if args.json:
        asked = {name: getattr(args, name) for name in ("device", "dtype", "quantization", "threads")}
        said = {"lanes": [lane.record() for lane in lanes], "seed": seed, **asked, "finished": not stopped}
        running.print_json(said | ({"images": args.image} if args.image else {}) | as_json(results))
    elif count == 1 and last is not None:
        _show_one(last, titles)
    elif results:
        _show(results, seed)
    if stopped:
        terminal.say(f"stopped; {_count(results)} of {count} prompts were run")
        return STOPPED
    return 0


def _race_all(
    args: argparse.Namespace,
    lanes: Sequence[LaneSpec],
    prompts: Iterable[RacePrompt],
    count: int,
    results: list[RaceResult],
    stop: threading.Event,
) -> RaceRun | None:
    """Races on each prompt and adds to ``results``, until ``stop`` is set; returns the last race.

    Raises:
        SafelightError: a model cannot be loaded, or a lane failed.
    """
    racing, race, titles = Racing(ChosenBackend(args)), None, [lane.title for lane in lanes]
    with terminal.progress("Racing") as show:
        for index, prompt in enumerate(prompts):
            if stop.is_set():
                break
            request = RaceRequest(
                (message_of(prompt.text, prompt.pictures),),
                tuple(spec.lane() for spec in lanes),
                running.seed(args),
                keep=False,
                threads=args.threads,
                pictures=prompt.pictures,
                cancel=stop,
            )
            race = RaceRun.from_request(request)
            racing.run(request, None, race.apply)
            failed = (
                f"{title}: {lane.problem}" for title, lane in zip(titles, race.lanes, strict=True) if lane.problem
            )
            if problem := race.problem or next(failed, ""):
                raise SafelightError(problem)
            if not stop.is_set():
                results += results_of(race, titles, index, prompt)
            show((index + 1) / count)
    return race


def _prompts(args: argparse.Namespace, seed: int) -> tuple[Iterable[RacePrompt], int]:
    """Returns the prompts of the options and their number.

    Raises:
        SafelightError: no prompts are given, or by two options.
    """
    sources = {"PROMPT": args.prompt, "--sudoku": args.sudoku, "--prompts": args.prompts}
    if sum(value is not None for value in sources.values()) != 1:
        raise SafelightError(f"give one of these: {', '.join(sources)}")
    if args.givens is not None and args.sudoku is None:
        raise SafelightError("--givens is for puzzles; add --sudoku")
    if args.image and args.prompt is None:
        raise SafelightError("--image needs a PROMPT; write one, or leave out --image")
    if args.sudoku is not None:
        return sudoku_prompts(args.sudoku, seed, args.givens), args.sudoku
    if args.prompts is not None:
        prompts = own_prompts(options.read_text(args.prompts)[0])
        return prompts, len(prompts)
    return [RacePrompt(options.prompt_of(args.prompt), tuple(read_picture(Path(name)) for name in args.image))], 1


def _every_decoder(model: str) -> list[LaneSpec]:
    """Makes a lane for each decoder of a model.

    Raises:
        SafelightError: there is no such model, or it has only one decoder.
    """
    from engine import run_settings  # imports torch

    decoders = run_settings(model).decoders
    if len(decoders) < FEWEST_LANES:
        raise SafelightError(f"{model} has only one decoder; give --lane twice, with different models or settings")
    return [LaneSpec(model, decoder) for decoder in decoders[:MAX_LANES]]


def _show_one(race: RaceRun, titles: Sequence[str]) -> None:
    """Prints each lane's text with its figures."""
    screen = terminal.console(sys.stdout)
    for place, (title, lane) in enumerate(zip(titles, race.lanes, strict=True)):
        figures = lane.figures
        ratio = f", {figures.tokens_per_forward:.2f} tokens per pass" if figures.forwards else ""
        same = f", {percent(race.agreement(place))} the same as lane 1" if place else ""
        line = f"{figures.tokens} tokens in {figures.forwards} passes{ratio}, {figures.seconds:.3f} s{same}\n"
        screen.print(Text(title, "bold"), Text(lane.text or "(nothing)"), Text(line, "dim"), sep="\n")


def _show(results: Sequence[RaceResult], seed: int) -> None:
    """Prints a row for each lane."""
    heading = f"{_count(results)} prompts, seed {seed}; intervals of 95 %, times of each lane alone"
    table = terminal.table(heading, "lane", "exact", "tokens/pass", "seconds", "tokens/s", "agreement")
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for row in scores_of(results):
        table.add_row(
            row.lane,
            "–" if row.rate is None else f"{percent(row.rate)} ({_span(row.exact_interval, 100, 0)})",
            f"{row.tokens_per_forward:.2f} ({_span(row.tokens_per_forward_interval, 1, 2)})",
            f"{row.seconds:.3f} ({_span(row.seconds_interval, 1, 3)})",
            f"{row.tokens_per_second:.0f}",
            percent(row.agreement),
        )
    terminal.console(sys.stdout).print(table)


def _count(results: Sequence[RaceResult]) -> int:
    return len({one.index for one in results})


def _span(ends: Interval, factor: float, digits: int) -> str:
    low, high = (f"{factor * end:.{digits}f}" for end in ends)
    return f"{low}–{high}"
