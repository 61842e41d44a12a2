"""What ending blocks early does to steps and answers: ``python -m tests.bench.stalling``.

Hard puzzles, everyday prompts to the skills model, which was never taught them, and held-out skills, also those with
answers of several blocks, are answered with the same seeds: to the cap on steps as by default, with stalled blocks
taken as they are, with second tries, with rescue, and with heads, whose causal probability is not asked for, as these
models were not trained to read causally. The steps of prompts with a block that runs to the cap by default stand in a
column of their own, and so does the share of texts that stay the same.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from engine import SKILLS, SUDOKU, CanvasCommitted, GenerationConfig, GenerationFinished, Model, generate, load_model
from engine.tasks import skills
from tests.bench.rescue import Task, hard_puzzles, skill_tasks

SKILLS_CANVAS = 64  # tokens, each a character
EVERYDAY = Path(__file__).with_name("everyday_prompts.txt")


@dataclass(frozen=True)
class StalledAnswer:
    """The answer to a prompt: whether it is right, its steps, and whether a block ran to the cap or stalled.

    ``heads`` are its blocks of which only the beginning became text.
    """

    text: str
    is_right: bool
    steps: int
    is_capped: bool
    has_stalled: bool
    heads: int


def long_skills(count: int) -> list[Task]:
    """Skills whose answers take more than a block of the skills model."""
    rng, found = random.Random(1), list[Task]()
    while len(found) < count:
        example = skills.sample(rng, "test")
        if len(example.answer) > SKILLS_CANVAS:
            found.append(Task(example.prompt, lambda answer, prompt=example.prompt: skills.check(prompt, answer)))
    return found


def everyday(count: int) -> list[Task]:
    lines = EVERYDAY.read_text().splitlines()
    asked = [line for line in lines if line and not line.startswith("#")]
    return [Task(line[:200], lambda _: False) for line in asked[:count]]


def answers(model: Model, tasks: Sequence[Task], config: GenerationConfig) -> list[StalledAnswer]:
    found = []
    for seed, task in enumerate(tasks):
        ids = model.chat_ids([{"role": "user", "content": task.prompt}])
        events = list(generate(model, ids, config, seed))
        reasons = {event.reason for event in events if isinstance(event, CanvasCommitted)}
        last = events[-1]
        assert isinstance(last, GenerationFinished)
        text = model.tokenizer.decode(last.tokens.tolist())
        heads = sum(event.reason == "head" for event in events if isinstance(event, CanvasCommitted))
        how = "step_cap" in reasons, "stalled" in reasons, heads
        found.append(StalledAnswer(text, task.is_right(text), last.steps, *how))
    return found


def settings(
    config: GenerationConfig, steps: Sequence[int], fall: float, tries: Sequence[int], heads: Sequence[int]
) -> dict[str, GenerationConfig]:
    """Returns the settings to compare, by their names; the first is the default."""
    found = {"to the cap": config}
    for count in steps:
        stall = config.replace(stall_steps=count, stall_fall=fall)
        found[f"stall {count}"] = stall
        found |= {f"stall {count}, second tries {more}": stall.replace(second_tries=more) for more in tries}
        found[f"stall {count}, rescue"] = stall.replace(rescue=True)
    return found | {f"heads after {count}": config.replace(head_steps=count, head_probability=0.0) for count in heads}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stalling", description=__doc__)
    parser.add_argument("--puzzles", type=int, default=200)
    parser.add_argument("--everyday", type=int, default=200)
    parser.add_argument("--skills", type=int, default=400)
    parser.add_argument("--long", type=int, default=200, help="skills with answers of several blocks")
    parser.add_argument("--steps", type=int, nargs="*", default=(6, 8), help="stall_steps to compare")
    parser.add_argument("--heads", type=int, nargs="*", default=(1, 2, 4), help="head_steps to compare")
    parser.add_argument("--fall", type=float, default=GenerationConfig().stall_fall)
    parser.add_argument("--tries", type=int, nargs="+", default=(1, 4), help="second_tries to compare")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{'':<14}{'':<26}{'exact':>8}{'steps':>8}{'capped':>8}{'lost':>6}{'won':>6}{'same':>6}{'stalled':>9}{'heads':>7}"
    )
    for name, path, tasks in (
        ("hard Sudoku", SUDOKU, hard_puzzles(options.puzzles, 0)),
        ("everyday", SKILLS, everyday(options.everyday)),
        ("skills", SKILLS, skill_tasks(options.skills, 0)),
        ("long skills", SKILLS, long_skills(options.long)),
    ):
        model, first = load_model(path, device="cpu"), list[StalledAnswer]()
        compared = settings(model.generation_defaults, options.steps, options.fall, options.tries, options.heads)
        for decoding, config in compared.items() if tasks else ():
            found = answers(model, tasks, config)
            first = first or found
            capped = [own.steps for own, by_default in zip(found, first, strict=True) if by_default.is_capped]
            same = sum(one.text == other.text for one, other in zip(found, first, strict=True))
            lost, won = (
                sum(one.is_right and not other.is_right for one, other in zip(*pair, strict=True))
                for pair in ((first, found), (found, first))
            )
            print(
                f"{name:<14}{decoding:<26}{sum(one.is_right for one in found) / len(found):>8.1%}"
                f"{sum(one.steps for one in found) / len(found):>8.2f}{sum(capped) / max(1, len(capped)):>8.1f}"
                f"{lost:>6}{won:>6}{same / len(found):>6.0%}{sum(one.has_stalled for one in found):>9}"
                f"{sum(one.heads for one in found):>7}",
                flush=True,
            )


if __name__ == "__main__":
    main()
