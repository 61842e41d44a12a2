"""``safelight skills --sudoku-pictures``: scores the reading of photographed Sudokus held out of training. Knows no
torch."""

from __future__ import annotations

import argparse
import random
import sys

from app.cli import options, running, skills_drawings, terminal
from engine import SIGHT
from engine.tasks import sudoku, sudoku_pictures

SIDES = (300, 900)  # side of the pictures, in pixels


def run(args: argparse.Namespace) -> int:
    """Reads the nine rows of each of ``--count`` pictures."""
    from engine.tasks.sudoku_pictures.photograph import photograph  # imports Pillow

    changes = options.sampler_changes(args)
    model, seed = running.load(args, SIGHT), running.seed(args)
    config = options.settings(model.generation_defaults, changes).replace(image_tokens=sudoku_pictures.IMAGE_TOKENS)
    rng, right, asked = random.Random(f"{seed} sudoku pictures"), [0, 0, 0], 0  # right cells, rows, grids; grids read
    stopped = False
    with terminal.progress("Reading Sudokus") as show_progress:
        while asked < args.count and not stopped:
            show_progress(asked / args.count)
            board = sudoku.generate(rng, 24, 50, held_out=True).board
            picture = photograph(rng, board, rng.randint(*SIDES)).picture()
            cells = list[bool]()
            for row, question in enumerate(sudoku_pictures.ROW_QUESTIONS):
                outcome = skills_drawings.ask(model, picture, question, config, seed)
                if stopped := outcome.stopped:
                    break
                wanted, found = sudoku_pictures.answer(board, row), outcome.text.strip()
                cells += [len(found) == 9 and one == other for one, other in zip(wanted, found.ljust(9), strict=False)]
            if not stopped:
                rows = [all(cells[start : start + 9]) for start in range(0, 81, 9)]
                right = [a + b for a, b in zip(right, (sum(cells), sum(rows), all(rows)), strict=True)]
                asked += 1
    _show(args, right, asked, running.model_names(model), seed)
    if stopped:
        terminal.say("stopped; the table holds what was run")
        return 130
    return 0


def _show(args: argparse.Namespace, right: list[int], asked: int, names: dict[str, str], seed: int) -> None:
    counts = {"cells": 81 * asked, "rows": 9 * asked, "grids": asked}
    found = {name: (hits, count) for (name, count), hits in zip(counts.items(), right, strict=True)}
    if args.json:
        scores = {name: {"count": count, "exact": hits / max(1, count)} for name, (hits, count) in found.items()}
        running.print_json({**scores, "seed": seed, **names})
        return
    table = terminal.table(
        f"{' + '.join(names.values())}, held-out Sudokus, seed {seed}", "read", "right", "of", "rate"
    )
    for name, (hits, count) in found.items():
        table.add_row(name.capitalize(), str(hits), str(count), f"{100 * hits / max(1, count):.1f} %")
    terminal.console(sys.stdout).print(table)
