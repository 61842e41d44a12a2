"""What rescuing blocks does to answers, passes and seconds: ``python -m tests.bench.rescue``.

Held-out skills and hard puzzles are answered by the embedded models as they do by themselves, with rescue, and wholly
autoregressively, all with the same seeds. A cap on the steps that is below the model's own shows what rescue does where
more blocks need it. Seconds depend on the machine, which is named.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine import (
    SKILLS,
    SUDOKU,
    CanvasCommitted,
    GenerationConfig,
    GenerationFinished,
    Model,
    StepFinished,
    generate,
    load_model,
)
from engine.tasks import skills, sudoku


@dataclass(frozen=True)
class Task:
    """A prompt, and whether an answer to it is right."""

    prompt: str
    is_right: Callable[[str], bool]


@dataclass(frozen=True)
class Row:
    """What one way of decoding came to, a prompt."""

    task: str
    decoding: str
    exact: float  # share of the prompts
    passes: float
    seconds: float
    rescued: int  # blocks, of all prompts
    kept: float  # tokens of a rescued block, with the one that is drawn in the same pass


def skill_tasks(count: int, seed: int) -> list[Task]:
    rng, found = random.Random(seed), dict[str, Task]()
    while len(found) < count:
        example = skills.sample(rng, "test")
        found[example.prompt] = Task(example.prompt, lambda answer, prompt=example.prompt: skills.check(prompt, answer))
    return list(found.values())


def hard_puzzles(count: int, seed: int) -> list[Task]:
    rng, bounds = random.Random(seed), sudoku.GIVENS["hard"]

    def task(board: str) -> Task:
        return Task(sudoku.to_prompt(board), lambda answer: sudoku.judge(board, sudoku.read_answer(answer)).valid)

    return [task(sudoku.generate(rng, bounds.low, bounds.high, held_out=True).board) for _ in range(count)]


def measured(model: Model, name: str, decoding: str, tasks: Sequence[Task], config: GenerationConfig) -> Row:
    exact, passes, rescued, seconds, kept = 0, 0, 0, 0.0, list[int]()
    for number, task in enumerate(tasks):
        ids, started = model.chat_ids([{"role": "user", "content": task.prompt}]), time.perf_counter()
        for event in generate(model, ids, config, number):
            if isinstance(event, StepFinished) and config.rescue and event.step == config.max_denoising_steps:
                kept.append(int(event.accepted_mask.sum()))
            elif isinstance(event, CanvasCommitted):
                rescued += config.rescue and event.steps > config.max_denoising_steps
        assert isinstance(event, GenerationFinished)
        seconds += time.perf_counter() - started
        exact, passes = exact + task.is_right(model.tokenizer.decode(event.tokens.tolist())), passes + event.steps
    count = len(tasks)
    mean_kept = statistics.fmean(kept) if kept else 0.0
    return Row(name, decoding, exact / count, passes / count, seconds / count, rescued, mean_kept)


def measure(count: int, seed: int, steps: Sequence[int], probability: float) -> dict[str, Any]:
    rows = []
    for name, path, tasks in (
        ("skills", SKILLS, skill_tasks(count, seed)),
        ("hard Sudoku", SUDOKU, hard_puzzles(count, seed)),
    ):
        model = load_model(path, device="cpu")
        defaults = model.generation_defaults
        for cap in steps or (defaults.max_denoising_steps,):
            config = defaults.replace(max_denoising_steps=cap)
            rescue = config.replace(rescue=True, rescue_probability=probability)
            rows.append(measured(model, name, f"diffusion, {cap} steps", tasks, config))
            rows.append(measured(model, name, f"rescue, {cap} steps", tasks, rescue))
        rows.append(measured(model, name, "autoregressive", tasks, defaults.replace(decoder="autoregressive")))
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "prompts": count,
        "seed": seed,
        "rescue_probability": probability,
        "rows": [vars(row) for row in rows],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rescue", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="prompts of each task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--steps", type=int, nargs="*", default=(), help="caps on the steps; the models' own if left out"
    )
    parser.add_argument("--probability", type=float, default=GenerationConfig().rescue_probability)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    found = measure(options.count, options.seed, options.steps, options.probability)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{found['prompts']} prompts each, seed {found['seed']}, on {found['machine']}\n")
    print(f"{'':<14}{'':<24}{'exact':>8}{'passes':>10}{'seconds':>10}{'rescued':>10}{'kept':>8}")
    for row in found["rows"]:
        print(
            f"{row['task']:<14}{row['decoding']:<24}{row['exact']:>8.0%}{row['passes']:>10.1f}{row['seconds']:>10.2f}"
            f"{row['rescued']:>10}{row['kept']:>8.1f}"
        )


if __name__ == "__main__":
    main()
