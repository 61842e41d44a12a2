"""``safelight sudoku --eval``: fresh puzzles through the model, and how many it solves. Knows no torch."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli import options, running, sudoku_runs, terminal
from app.state.sudoku.scores import ALL, MOST, Scoreboard, make_puzzle
from engine import SUDOKU, GenerationConfig, SafelightError
from engine.files import replacing
from engine.tasks.sudoku import BINS, GIVENS, GivenRange

if TYPE_CHECKING:
    from engine import Model

COUNT = 50
PLAIN_LINES = 10  # of progress in all, where no line can be written over


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scoring a model on fresh puzzles that no model here was trained on")
    group.add_argument("--eval", action="store_true", help="score the model instead; --givens or --bin say on what")
    spans = ", ".join(f"{name} {span}" for name, span in GIVENS.items())
    group.add_argument("--bin", choices=(*BINS, ALL), help=f"puzzles by their givens: {spans} (default: all)")
    group.add_argument(
        "--count",
        type=options.number("the count", 1, MOST),
        metavar="N",
        help=f"puzzles of each bin, or of --givens (default: {COUNT})",
    )
    group.add_argument("--csv", type=options.place, metavar="FILE", help="write the single results to a file, too")


def check(args: argparse.Namespace) -> None:
    """Refuse options that do not go together.

    Raises:
        SafelightError: naming them.
    """
    if not args.eval:
        for name in ("bin", "count", "csv"):
            if getattr(args, name) is not None:
                raise SafelightError(f"--{name} is for scoring a model; add --eval")
        return
    if args.make is not None:
        raise SafelightError("--make prints puzzles and --eval scores a model on some; give one of them")
    if args.puzzles or args.file is not None:
        raise SafelightError("--eval makes its own puzzles; leave out PUZZLE and --file")
    if args.watch or args.raw:
        raise SafelightError("--eval runs many puzzles and shows no canvas; leave out --watch and --raw")
    if args.bin is not None and args.givens is not None:
        raise SafelightError("--bin and --givens both say which puzzles; give one of them")
    if args.csv is not None:
        folder = Path(args.csv).absolute().parent
        if args.csv == "-" or Path(args.csv).is_dir():
            raise SafelightError("--csv needs the name of a file")
        if not folder.is_dir():
            raise SafelightError(f"there is no folder {folder}. Choose a folder that exists")


@dataclass(frozen=True)
class Batch:
    """Who is scored, how, and on what: ``count`` puzzles of each span. The seed chooses puzzles and noise."""

    model: Model
    config: GenerationConfig
    spans: tuple[GivenRange, ...]
    count: int
    seed: int

    def __len__(self) -> int:
        return self.count * len(self.spans)


def run(args: argparse.Namespace, changes: dict[str, int | float]) -> int:
    """Score the model that the options name. After Ctrl+C there is what was run until then."""
    model = running.load(args, SUDOKU)
    config = options.settings(model.generation_defaults, changes)
    names = BINS if args.bin in (None, ALL) else (args.bin,)
    spans = (args.givens,) if args.givens is not None else tuple(GIVENS[name] for name in names)
    batch = Batch(model, config, spans, args.count or COUNT, running.seed(args))
    scores = Scoreboard()
    finished = score(batch, scores)
    if args.json:
        running.print_json(document(batch, scores, finished=finished))
    elif len(scores):
        screen = terminal.console(sys.stdout)
        title = f"{sudoku_runs.contender(model)}, fresh puzzles, seed {batch.seed}"
        screen.print(sudoku_runs.table(scores, title, screen.width))
    if args.csv is not None:
        with replacing(Path(args.csv)) as beside:
            beside.write_text(scores.to_csv(), encoding="utf-8")
    if not finished:
        terminal.say(f"stopped; {len(scores)} of {len(batch)} puzzles were run")
        return 130
    return 0


def score(batch: Batch, scores: Scoreboard) -> bool:
    """Run all puzzles, the spans in turns, into ``scores``; False where Ctrl+C came first."""
    ticker = Ticker(len(batch))
    try:
        for index in range(batch.count):
            for span in batch.spans:
                made = make_puzzle(span, batch.seed, index)
                result = sudoku_runs.solve(batch.model, made.board, made.solution, batch.config, batch.seed)
                if result is None:
                    return False
                scores.add(result)
                ticker.show(scores)
    except KeyboardInterrupt:  # while a puzzle was made
        return False
    finally:
        ticker.clear()
    return True


def document(batch: Batch, scores: Scoreboard, *, finished: bool) -> dict[str, Any]:
    """What was asked for, of whom, and everything that came of it."""
    adapter = batch.model.adapter
    return {
        **running.who(batch.model),
        **({} if adapter is None else {"adapter_fingerprint": adapter.fingerprint}),
        "device": str(batch.model.device),
        "givens": [str(span) for span in batch.spans],
        "count": batch.count,
        "seed": batch.seed,
        "sampler": {knob.field: getattr(batch.config, knob.field) for knob in options.KNOBS},
        "finished": finished,
        **scores.document(),
    }


class Ticker:
    """The running rates on standard error: one line that changes on a terminal, elsewhere ten lines in all."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._changes = terminal.can_style(sys.stderr)

    def show(self, scores: Scoreboard) -> None:
        done = len(scores)
        if self._changes:
            line = f"{done} of {self._total} · {sudoku_runs.rates(scores)}"
            sys.stderr.write(terminal.CLEAR_LINE + line[: terminal.console(sys.stderr).width - 1])
            sys.stderr.flush()
        elif self._total >= 2 * PLAIN_LINES and done < self._total and done % (self._total // PLAIN_LINES) == 0:
            terminal.say(f"{done} of {self._total} puzzles; {sudoku_runs.rates(scores)}")

    def clear(self) -> None:
        """Take the changing line away."""
        if self._changes:
            sys.stderr.write(terminal.CLEAR_LINE)
            sys.stderr.flush()
