"""``safelight sudoku``: puzzles through the model, judged as it wrote them; and fresh puzzles. No solver ever helps."""

from __future__ import annotations

import argparse
import random
import re
import sys
from dataclasses import dataclass

from app import terminal
from app.commands import options, running
from app.commands.watching import watcher
from engine import SUDOKU, SafelightError
from engine.tasks import sudoku

EPILOG = """\
A puzzle is 81 characters: the digits 1-9, and . or 0 for a blank. In a file, one a line; # starts a comment.

examples:
  safelight sudoku 53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
  safelight sudoku --make 20 --givens 30-39 --seed 1 > puzzles.txt
  safelight sudoku --file puzzles.txt --json
"""
FEWEST, MOST = 22, 80  # givens of puzzles to make; fewer than 22 would take minutes each


@dataclass(frozen=True)
class Run:
    """One puzzle, what the model wrote, and what it took."""

    puzzle: str
    answer: str
    steps: int
    seconds: float

    @property
    def verdict(self) -> sudoku.Verdict:
        return sudoku.judge(self.puzzle, self.answer)


def add_parser(commands: argparse._SubParsersAction) -> None:  # type: ignore[type-arg]
    parser = commands.add_parser(
        "sudoku",
        help="solve Sudoku puzzles, or make some",
        description="Let the model solve Sudoku puzzles. What it writes is shown as it is, right or wrong.",
        epilog=EPILOG,
    )
    parser.add_argument("puzzles", metavar="PUZZLE", nargs="*", help="81 characters")
    parser.add_argument("--file", metavar="FILE", help="a file of puzzles, one a line; - reads standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object a puzzle")
    group = parser.add_argument_group("making puzzles (no model runs)")
    group.add_argument(
        "--make", type=options.number("the count", 1, 100_000), metavar="N", help="print N fresh puzzles instead"
    )
    group.add_argument(
        "--givens",
        type=givens_range,
        metavar="LOW-HIGH",
        help=f"givens of puzzles to make, {FEWEST} to {MOST} (default: 25-50)",
    )
    options.add_watch(parser)
    options.add_model(parser, SUDOKU)
    options.add_sampler(parser)
    parser.set_defaults(run=run)


def givens_range(text: str) -> tuple[int, int]:
    """An argparse type: ``30-39`` or ``30``."""
    found = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text.strip(), re.ASCII)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not FEWEST <= low <= high <= MOST:
        raise argparse.ArgumentTypeError(f"must be LOW-HIGH with {FEWEST} <= LOW <= HIGH <= {MOST}, not {text!r}")
    return low, high


def run(args: argparse.Namespace) -> int:
    changes = options.sampler_changes(args)
    if args.make is not None:
        if args.puzzles or args.file is not None:
            raise SafelightError("--make prints fresh puzzles; leave out PUZZLE and --file")
        return make(args.make, *(args.givens or (25, 50)), running.seed(args))
    if args.givens is not None:
        raise SafelightError("--givens is for making puzzles; add --make N")
    puzzles = read_puzzles(args.puzzles, args.file)

    model = running.load(args, SUDOKU)
    config = options.settings(model.generation_defaults, changes)
    screen = terminal.console(sys.stdout)
    done: list[Run] = []
    for index, puzzle in enumerate(puzzles):
        ids = model.chat_ids([{"role": "user", "content": sudoku.to_prompt(puzzle)}])
        with watcher(args, model.tokenizer, config, columns=10) as watch:  # nine cells and a line break
            outcome = running.run(model, ids, config, running.seed(args), watch)
        if outcome.stopped:
            terminal.say(f"stopped; {index} of {len(puzzles)} puzzles were run")
            break
        answer = sudoku.read_answer(outcome.text)
        done.append(Run(puzzle, answer, outcome.steps, outcome.prefill_seconds + outcome.seconds))
        if args.json:
            running.print_json(record(done[-1]))
        else:
            print(describe(done[-1], index, len(puzzles)))
            sys.stdout.flush()
            screen.print(terminal.boards(puzzle, answer))
    if len(done) > 1 and not args.json:
        screen.print(summary(done))
    return 0 if len(done) == len(puzzles) else 130


def read_puzzles(arguments: list[str], file: str | None) -> list[str]:
    """All puzzles, checked before the first one is run.

    Raises:
        SafelightError: naming the argument or the line, and what is wrong with it.
    """
    named = [(f"puzzle {number}", text) for number, text in enumerate(arguments, 1)]
    if file is not None:
        text, name = options.read_text(file)
        lines = ((f"{name}, line {number}", line.partition("#")[0]) for number, line in enumerate(text.splitlines(), 1))
        named += [(where, line) for where, line in lines if line.strip()]
        if not named:
            raise SafelightError(f"{name} has no puzzles in it")
    if not named:
        raise SafelightError("give a puzzle, --file FILE or --make N (see safelight sudoku --help)")
    puzzles = []
    for where, text in named:
        try:
            puzzles.append(sudoku.parse(text))
        except sudoku.PuzzleError as error:
            raise SafelightError(f"{where}: {error}") from None
    return puzzles


def record(run: Run) -> dict[str, object]:
    """The JSON line of a puzzle."""
    return {
        "puzzle": run.puzzle,
        "answer": run.answer,
        "valid": run.verdict.valid,
        "givens_kept": run.verdict.givens_kept,
        "steps": run.steps,
        "seconds": run.seconds,
    }


def describe(run: Run, index: int, count: int) -> str:
    place = f"Puzzle {index + 1} of {count}: " if count > 1 else ""
    kind = f"{sudoku.bin_of(run.puzzle)}, {sudoku.givens(run.puzzle)} givens"
    words = terminal.verdict_in_words(run.puzzle, run.answer)
    return f"{place}{words} ({kind}; {run.steps} step{'s' * (run.steps != 1)}, {run.seconds:.2f} s)"


def summary(done: list[Run]) -> object:
    """A table of exact solves by bin."""
    table = terminal.table("", "givens", "solved", "of", "rate", "steps, mean", "seconds, mean")
    names = {"easy": "easy (40 or more)", "medium": "medium (30 to 39)", "hard": "hard (under 30)"}
    for name in (*names, "all"):
        runs = [one for one in done if name in ("all", sudoku.bin_of(one.puzzle))]
        if runs:
            solved = sum(one.verdict.valid for one in runs)
            table.add_row(
                names.get(name, name),
                str(solved),
                str(len(runs)),
                f"{100 * solved / len(runs):.1f} %",
                f"{sum(one.steps for one in runs) / len(runs):.1f}",
                f"{sum(one.seconds for one in runs) / len(runs):.2f}",
            )
    return table


def make(count: int, low: int, high: int, seed: int) -> int:
    """Print fresh unique puzzles whose solved grids no model here was trained on; givens uniform over the range."""
    rng = random.Random(seed)
    seen: set[str] = set()
    while len(seen) < count:
        board = sudoku.generate(rng, low, high, held_out=True).board
        if board not in seen:
            seen.add(board)
            print(board, flush=True)
    return 0
