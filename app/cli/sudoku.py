"""``safelight sudoku``: solves puzzles with the model and judges its answers; also makes puzzles and scores many of
them.

No solver changes what the model writes.
"""

from __future__ import annotations

import argparse
import random
import re
import sys

from app.cli import options, running, sudoku_picture, sudoku_scores, terminal
from app.cli.watch import watcher
from app.state.sudoku.scores import Result, Scoreboard, only_solution
from engine import SIGHT, SUDOKU, SafelightError
from engine.errors import quoted
from engine.tasks import sudoku
from engine.tasks.sudoku import GivenRange

EPILOG = """\
A puzzle is 81 characters: the digits 1-9, and . or 0 for a blank. A file has a puzzle on each line; # starts a comment.

examples:
  safelight sudoku 53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
  safelight sudoku --make 20 --givens 30-39 --seed 1 > puzzles.txt
  safelight sudoku --file puzzles.txt --json
  safelight sudoku --image assets/examples/sudoku.png
  safelight sudoku --eval --givens 36 --count 200 --seed 0 --json
  safelight sudoku --eval --bin easy --csv easy.csv
"""
FEWEST, MOST = 22, 80  # givens of generated puzzles; fewer than 22 take minutes each


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "sudoku",
        help="solve Sudoku puzzles, make some, or score a model",
        description="Let the model solve Sudoku puzzles. What it writes is shown as it is, right or wrong.",
        epilog=EPILOG,
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
    parser.add_argument("--json", action="store_true", help="print one JSON object a puzzle; with --eval, one in all")
    group = parser.add_argument_group("making puzzles (no model runs)")
    group.add_argument(
        "--make", type=options.number("the count", 1, 100_000), metavar="N", help="print N fresh puzzles instead"
    )
    group.add_argument(
        "--givens",
        type=givens_range,
        metavar="LOW-HIGH",
        help=f"number of givens, {FEWEST} to {MOST} (default: 25-50); under 25, making a puzzle takes long",
    )
    sudoku_scores.add_options(parser)
    options.add_watch(parser)
    options.add_model(parser, SUDOKU)
    options.add_sampler(parser)
    parser.set_defaults(run=run)


def givens_range(text: str) -> GivenRange:
    """Parses an argparse type: ``30-39`` or ``30``."""
    found = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text.strip(), re.ASCII)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not FEWEST <= low <= high <= MOST:
        raise argparse.ArgumentTypeError(f"must be LOW-HIGH with {FEWEST} <= LOW <= HIGH <= {MOST}, not {quoted(text)}")
    return GivenRange(low, high)


def run(args: argparse.Namespace) -> int:
    changes = options.sampler_changes(args)
    sudoku_scores.check(args)
    if args.make is not None:
        if args.puzzles or args.file is not None or args.image is not None:
            raise SafelightError("--make prints fresh puzzles; leave out PUZZLE, --file and --image")
        return make(args.make, args.givens or GivenRange(25, 50), running.seed(args))
    if args.image is not None and (args.eval or args.puzzles or args.file is not None):
        raise SafelightError("--image reads the puzzle; leave out PUZZLE, --file and --eval")
    if args.eval:
        return sudoku_scores.run(args, changes)
    if args.givens is not None:
        raise SafelightError("--givens is for making puzzles; add --make N or --eval")
    return solve(args, changes)


def solve(args: argparse.Namespace, changes: dict[str, int | float | str]) -> int:
    """Solves the given puzzles, one after the other."""
    read = None if args.image is None else sudoku_picture.read(args)
    puzzles = read_puzzles(args.puzzles, args.file) if read is None else [read.cells]
    model = running.load(args, SUDOKU)
    config = options.settings(model.generation_defaults, changes)
    screen = terminal.console(sys.stdout)
    done = Scoreboard()
    for index, puzzle in enumerate(puzzles):
        with watcher(args, model.tokenizer, config, columns=10) as watch:  # nine cells and a line break
            result = sudoku_scores.solve(model, puzzle, only_solution(puzzle), config, running.seed(args), watch)
        if result is None:
            terminal.say(f"stopped; {index} of {len(puzzles)} puzzles were run")
            break
        done.add(result)
        if args.json:
            running.print_json(record(result) | ({} if read is None else {"doubts": list(read.doubts)}))
        else:
            print(describe(result, index, len(puzzles)))
            sys.stdout.flush()
            screen.print(terminal.boards(puzzle, result.answer))
    if len(done) > 1 and not args.json:
        screen.print(sudoku_scores.table(done, "", screen.width))
    return 0 if len(done) == len(puzzles) else 130


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


def record(result: Result) -> dict[str, object]:
    """Returns the JSON record of a puzzle's result."""
    everything = result.record()
    return {key: everything[key] for key in ("puzzle", "answer", "valid", "givens_kept", "steps", "seconds")}


def describe(result: Result, index: int, count: int) -> str:
    """Returns the line above a board."""
    place = f"Puzzle {index + 1} of {count}: " if count > 1 else ""
    words = terminal.verdict_in_words(result.puzzle, result.answer)
    steps = f"{result.steps} step{'s' * (result.steps != 1)}"
    return f"{place}{words} ({result.bin}, {result.givens} givens; {steps}, {result.seconds:.2f} s)"


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
