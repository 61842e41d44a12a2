"""``safelight sudoku``: solves puzzles with the model and judges its answers; also makes puzzles.

No solver changes what the model writes.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import threading
from pathlib import Path

from app.cli import options, running, terminal
from app.cli.loading import load_alone
from app.cli.stopping import STOPPED, stopping
from app.state.intervals import percent, wilson
from app.state.sudoku.board import verdict
from engine import SIGHT, SUDOKU, SafelightError
from engine.errors import quoted
from engine.pictures import read_picture
from engine.service import PuzzleRun, read_rows
from engine.tasks import sudoku
from engine.tasks.sudoku import GivenRange
from engine.tasks.sudoku_pictures import ReadBoard

EPILOG = """\
A puzzle is 81 characters: the digits 1-9, and . or 0 for a blank. A file has a puzzle on each line; # starts a comment.

examples:
  safelight sudoku 53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
  safelight sudoku --make 20 --givens 30-39 --seed 1 > puzzles.txt
  safelight sudoku --file puzzles.txt --json
  safelight sudoku --image assets/examples/sudoku.png
"""
FEWEST_GIVENS, MAX_GIVENS = 22, 80  # of generated puzzles; fewer than 22 take minutes each


def read_board(args: argparse.Namespace, stop: threading.Event) -> ReadBoard:
    """Reads the puzzle of the given picture; prints it, unless JSON is wanted.

    Raises:
        SafelightError: no puzzle can be read from it, or what was read contradicts itself.
        KeyboardInterrupt: it was stopped.
    """
    picture = read_picture(Path(args.image))
    as_it_is = {
        "model": SIGHT,
        "adapter": None,
        "dtype": "auto",
        "quantization": "auto",
    }  # the options are the solver's
    runner = load_alone(argparse.Namespace(**{**vars(args), **as_it_is}), SIGHT, stop)
    rows = []
    with terminal.progress(f"Reading {Path(args.image).name}") as show:
        for row in read_rows(runner, picture, stop):
            rows.append(row)
            show(len(rows) / 9)
    if stop.is_set():
        raise KeyboardInterrupt
    board = ReadBoard.from_rows(rows).checked()
    if not args.json:
        print(_described(board), flush=True)
    try:
        sudoku.parse(board.cells)
    except sudoku.PuzzleError as error:
        raise SafelightError(f"{args.image} was not read right: {error}; correct it, and give it as PUZZLE") from None
    return board


def _described(board: ReadBoard) -> str:
    """Returns the line above a board that was read."""
    count = len(board.doubts)
    places = ", ".join(f"row {cell // 9 + 1} column {cell % 9 + 1}" for cell in board.doubts)
    doubts = f"{count} cell{'s are' if count != 1 else ' is'} unsure: {places}" if count else "no cell is unsure"
    return f"Read {board.cells.replace('0', '.')}; {doubts}. Check it against the picture."


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "sudoku",
        run,
        "solve Sudoku puzzles, or make some",
        "Let the model solve Sudoku puzzles. What it writes is shown as it is, right or wrong.",
        EPILOG,
    )
    parser.add_argument("puzzles", metavar="PUZZLE", nargs="*", help="81 characters")
    parser.add_argument(
        "--file", type=options.place, metavar="FILE", help="a file of puzzles, one a line; - reads standard input"
    )
    parser.add_argument(
        "--image",
        type=options.place,
        metavar="FILE",
        help=f"read the puzzle from a picture, with {SIGHT}, which knows printed grids that were drawn for it",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a puzzle")
    group = parser.add_argument_group("making puzzles (no model runs)")
    group.add_argument(
        "--make", type=options.number("the count", 1, 100_000), metavar="N", help="print N fresh puzzles instead"
    )
    group.add_argument(
        "--givens",
        type=givens_range,
        metavar="LOW-HIGH",
        help=f"number of givens, {FEWEST_GIVENS} to {MAX_GIVENS} (default: 25-50); "
        "under 25, making a puzzle takes long",
    )
    options.add_watch(parser)
    options.add_model(parser)
    options.add_sampler(parser)


def givens_range(text: str) -> GivenRange:
    """Parses an argparse type: ``30-39`` or ``30``."""
    match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text.strip(), re.ASCII)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not FEWEST_GIVENS <= low <= high <= MAX_GIVENS:
        raise argparse.ArgumentTypeError(
            f"must be LOW-HIGH with {FEWEST_GIVENS} <= LOW <= HIGH <= {MAX_GIVENS}, not {quoted(text)}"
        )
    return GivenRange(low, high)


def run(args: argparse.Namespace) -> int:
    changes = options.sampler_changes(args)
    has_puzzles = bool(args.puzzles) or args.file is not None
    if args.make is not None:
        if has_puzzles or args.image is not None:
            raise SafelightError("--make prints fresh puzzles; leave out PUZZLE, --file and --image")
        return make(args.make, args.givens or GivenRange(25, 50), running.seed(args))
    if args.image is not None and has_puzzles:
        raise SafelightError("--image reads the puzzle; leave out PUZZLE and --file")
    if args.givens is not None:
        raise SafelightError("--givens is for making puzzles; add --make N")
    with stopping() as stop:
        return solve(args, changes, stop)


def solve(args: argparse.Namespace, changes: dict[str, int | float | str], stop: threading.Event) -> int:
    """Solves the given puzzles, one after the other."""
    read = None if args.image is None else read_board(args, stop)
    puzzles = read_puzzles(args.puzzles, args.file) if read is None else [read.cells]
    runner = load_alone(args, SUDOKU, stop)
    model = runner.model
    config = options.settings(model.defaults, changes)
    screen = terminal.console(sys.stdout)
    done = solved = 0
    for index, puzzle in enumerate(puzzles):
        messages = ({"role": "user", "content": sudoku.to_prompt(puzzle)},)
        request = PuzzleRun(config, running.seed(args), messages, keep=False, cancel=stop)
        outcome = running.answered(args, runner, model, request)
        if outcome.failure is not None:
            raise outcome.failure
        if outcome.stopped:
            terminal.say(f"stopped; {index} of {len(puzzles)} puzzles were run")
            break
        answer, seconds = sudoku.read_answer(outcome.text), outcome.prefill_seconds + outcome.seconds
        judged = verdict(puzzle, answer)
        done, solved = done + 1, solved + judged.valid
        if args.json:
            kept, steps = sudoku.judge(puzzle, answer).givens_kept, outcome.steps
            record = {"puzzle": puzzle, "answer": answer, "valid": judged.valid, "givens_kept": kept}
            doubts = {} if read is None else {"doubts": list(read.doubts)}
            running.print_json(record | {"steps": steps, "seconds": seconds} | doubts)
        else:
            place = f"Puzzle {index + 1} of {len(puzzles)}: " if len(puzzles) > 1 else ""
            cost = f"{outcome.steps} step{'s' * (outcome.steps != 1)}, {seconds:.2f} s"
            print(f"{place}{judged.text} ({sudoku.givens(puzzle)} givens; {cost})", flush=True)
            screen.print(terminal.boards(puzzle, answer))
    if done > 1 and not args.json:
        low, high = wilson(solved, done)
        print(f"{solved} of {done} solved: {percent(solved / done)}, 95 % interval {percent(low)} to {percent(high)}")
    return 0 if done == len(puzzles) else STOPPED


def read_puzzles(arguments: list[str], file: str | None) -> list[str]:
    """Reads and checks all puzzles before the first one is run.

    Raises:
        SafelightError: a puzzle is invalid; names the argument or the line, and what is wrong.
    """
    named = [(f"puzzle {number}", text) for number, text in enumerate(arguments, 1)]
    if file is not None:
        text, name = options.read_text(file)
        lines = ((f"{name}, line {number}", line.partition("#")[0]) for number, line in enumerate(text.splitlines(), 1))
        named += [(where, line) for where, line in lines if line.strip()]
        if not named:
            raise SafelightError(f"{name} has no puzzles in it")
    if not named:
        raise SafelightError("give a puzzle, --file FILE, --image FILE or --make N (see safelight sudoku --help)")
    puzzles = []
    for where, text in named:
        try:
            puzzles.append(sudoku.parse(text))
        except sudoku.PuzzleError as error:
            raise SafelightError(f"{where}: {error}") from None
    return puzzles


def make(count: int, span: GivenRange, seed: int) -> int:
    """Prints fresh unique puzzles with solutions that no model was trained on; givens are uniform over the range."""
    rng = random.Random(seed)
    seen: set[str] = set()
    while len(seen) < count:
        board = sudoku.generate(rng, span.low, span.high, held_out=True).board
        if board not in seen:
            seen.add(board)
            print(board, flush=True)
    return 0
