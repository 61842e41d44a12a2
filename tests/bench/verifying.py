"""What verifying blocks does to answers, steps, passes and seconds: ``python -m tests.bench.verifying``.

Held-out skills, easy and hard puzzles are answered by the embedded models as they do by themselves, with a causal
reading of each block, and with doubtful spans written anew at two thresholds, all with the same seeds. What the reading
is worth shows in the causal probability of tokens in right answers beside that in wrong ones. Seconds depend on the
machine, which is named.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import (
    SKILLS,
    SUDOKU,
    CanvasCommitted,
    CanvasVerified,
    GenerationConfig,
    GenerationFinished,
    Model,
    generate,
    load_model,
)
from engine.tasks import sudoku
from tests.bench.rescue import Task, skill_tasks


@dataclass(frozen=True)
class Row:
    """What one way came to, a prompt."""

    task: str
    way: str
    exact: float  # share of the prompts
    changed: int  # answers that are others than without
    steps: float
    passes: float  # with those that read a block causally, committed or not
    seconds: float
    rewrites: int  # of all prompts
    kept: int
    doubtful: float  # share of the tokens that are read, as a block was first finished; NaN where none is
    right: float  # median causal probability of a token in a right answer, and
    wrong: float  # in a wrong one; NaN where there is none


def puzzles(kind: str, count: int, seed: int) -> list[Task]:
    rng, bounds = random.Random(seed), sudoku.GIVENS[kind]

    def task(board: str) -> Task:
        return Task(sudoku.to_prompt(board), lambda answer: sudoku.judge(board, sudoku.read_answer(answer)).valid)

    return [task(sudoku.generate(rng, bounds.low, bounds.high, held_out=True).board) for _ in range(count)]


def measured(
    model: Model, name: str, way: str, tasks: Sequence[Task], config: GenerationConfig, without: list[list[int]]
) -> Row:
    """One way; the first that is measured of a task fills ``without`` with its answers."""
    is_first, changed, exact, steps, passes, seconds, kept = not without, 0, 0, 0, 0, 0.0, 0
    shares: dict[bool, list[np.ndarray]] = {True: [], False: []}
    rewrites = 0
    for number, task in enumerate(tasks):
        ids, started = model.chat_ids([{"role": "user", "content": task.prompt}]), time.perf_counter()
        events = list(generate(model, ids, config, number))
        seconds += time.perf_counter() - started
        last = events[-1]
        assert isinstance(last, GenerationFinished)
        is_right = task.is_right(model.tokenizer.decode(last.tokens.tolist()))
        read = [event for event in events if isinstance(event, CanvasVerified)]
        blocks = sum(isinstance(event, CanvasCommitted) for event in events)
        shares[is_right] += [event.probabilities for event in read if not event.rewrite]
        kept += sum(event.is_kept for event in read if event.rewrite)
        rewrites += sum(event.rewrite > 0 for event in read)
        if is_first:
            without.append(last.tokens.tolist())
        changed += last.tokens.tolist() != without[number]
        exact, steps = exact + is_right, steps + last.steps
        passes += last.steps + (len(read) if read else blocks - 1)
    count = len(tasks)
    right, wrong = (known(shares[is_right]) for is_right in (True, False))
    both = np.concatenate([right, wrong])
    low = float((both < config.verify_probability).mean()) if len(both) else float("nan")
    medians = [float(np.median(part)) if len(part) else float("nan") for part in (right, wrong)]
    means = (exact / count, changed, steps / count, passes / count, seconds / count)
    return Row(name, way, *means, rewrites, kept, low, *medians)


def known(parts: Sequence[np.ndarray]) -> np.ndarray:
    whole = np.concatenate([np.empty(0, dtype=np.float32), *parts])
    return whole[~np.isnan(whole)]


def measure(count: int, boards: int, seed: int, thresholds: Sequence[float], rewrites: int) -> dict[str, Any]:
    rows = list[Row]()
    for path, name, tasks in (
        (SKILLS, "skills", skill_tasks(count, seed)),
        (SUDOKU, "easy Sudoku", puzzles("easy", boards, seed)),
        (SUDOKU, "hard Sudoku", puzzles("hard", boards, seed)),
    ):
        model = load_model(path, device="cpu", threads=1)
        off, without = model.generation_defaults, list[list[int]]()
        look = off.replace(verify=True, verify_probability=thresholds[0])
        ways = {"off": off, "look": look}
        for least in thresholds:
            ways[f"rewrite under {least:g}"] = look.replace(verify_probability=least, verify_rewrites=rewrites)
        rows += [measured(model, name, way, tasks, config, without) for way, config in ways.items()]
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "prompts": count,
        "puzzles": boards,
        "seed": seed,
        "rewrites": rewrites,
        "seconds_a_pass": statistics.fmean(row.seconds / row.passes for row in rows),
        "rows": [vars(row) for row in rows],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.verifying", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="prompts of skills")
    parser.add_argument("--puzzles", type=int, default=20, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--thresholds", type=float, nargs=2, default=(0.1, 1e-5))
    parser.add_argument("--rewrites", type=int, default=4, help="of a block at most")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    found = measure(options.count, options.puzzles, options.seed, options.thresholds, options.rewrites)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{found['prompts']} prompts, {found['puzzles']} puzzles of each kind, on {found['machine']}\n")
    heads = ("exact", "changed", "steps", "passes", "seconds", "rewrites", "kept", "doubtful", "right", "wrong")
    print(f"{'':<14}{'':<20}" + "".join(f"{head:>10}" for head in heads))
    for row in found["rows"]:
        print(
            f"{row['task']:<14}{row['way']:<20}{row['exact']:>10.0%}{row['changed']:>10}{row['steps']:>10.1f}"
            f"{row['passes']:>10.1f}{row['seconds']:>10.3f}{row['rewrites']:>10}{row['kept']:>10}{row['doubtful']:>10.1%}"
            f"{row['right']:>10.1e}{row['wrong']:>10.1e}"
        )


if __name__ == "__main__":
    main()
