"""Random schemas, regular expressions and choices, each answered by the skills model: is every answer valid?

``python -m tests.bench.structured --count 100`` prints rounds, steps against free generation of the same prompt and
seconds, and exits with 1 where an answer is invalid. The suite asks for a few of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass
from random import Random

from engine import (
    SKILLS,
    GenerationConfig,
    GenerationFinished,
    Model,
    PrefixPinned,
    SafelightError,
    generate,
    load_model,
)
from engine.text.output_format import OutputFormat
from tests.engine.text.formats import problem, random_format

PROMPTS = (
    "What is 12 + 7?", "Sort 17 3 42 9.", "How many letters has tree?", "Write this backwards: lighthouse", "hello",
    "Count from 3 to 9.", "What comes after Monday?", "What is the capital of France?",
)  # fmt: skip


@dataclass(frozen=True)
class Answered:
    """What one format came to."""

    reason: str
    text: str
    rounds: int
    steps: int
    seconds: float
    tokens: int


def answered(
    model: Model,
    prompt: str,
    seed: int,
    wanted: OutputFormat | None,
    most: int = 48,
    config: GenerationConfig | None = None,
) -> Answered:
    """The model's answer in a format, or a free one; ``most`` denoising steps in a block's first round."""
    config = (config or model.generation_defaults).replace(max_denoising_steps=most)
    ids, started = model.chat_ids([{"role": "user", "content": prompt}]), time.perf_counter()
    rounds = 0
    for event in generate(model, ids, config, seed, output_format=wanted):
        if isinstance(event, PrefixPinned):
            rounds += 1
    assert isinstance(event, GenerationFinished)
    text = model.tokenizer.decode(event.tokens, skip_special=False)
    return Answered(event.reason, text, rounds, event.steps, time.perf_counter() - started, len(event.tokens))


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.structured", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="schemas; regular expressions and choices come beside")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--steps", type=int, default=48, help="most denoising steps of a block's first round")
    parser.add_argument("--verbose", action="store_true", help="print every answer")
    options = parser.parse_args()
    model = load_model(SKILLS, device="cpu")
    invalid, ran, free_runs = 0, list[Answered](), list[Answered]()
    number = options.first
    schemas = 0
    while schemas < options.count:
        random = Random(number)
        wanted, prompt = random_format(random, number), random.choice(PROMPTS)
        schemas += wanted.kind == "json_schema"
        try:
            found = answered(model, prompt, number, wanted, options.steps)
        except SafelightError as error:
            invalid += 1
            print(f"case {number}: {json.dumps(wanted.to_json())}: {error}")
            number += 1
            continue
        wrong = problem(wanted, found.text) if found.reason == "eos" else ""
        if wrong:
            invalid += 1
        if wrong or options.verbose:
            told = json.dumps(wanted.to_json(), ensure_ascii=False)
            print(
                f"case {number}: {found.reason}, {found.rounds} rounds, {found.steps} steps, {found.seconds:.2f} s: "
                f"{told}: {found.text!r} {wrong}",
                flush=True,
            )
        ran.append(found)
        free_runs.append(answered(model, prompt, number, None, options.steps))
        number += 1
    whole = [one for one in ran if one.reason == "eos"]
    print(f"{len(ran)} answers: {len(whole)} whole, {len(ran) - len(whole)} cut by their length, {invalid} invalid")
    for name, figures, free in (
        ("rounds", [one.rounds for one in ran], [0 for _ in ran]),
        ("steps", [one.steps for one in ran], [one.steps for one in free_runs]),
        ("tokens", [one.tokens for one in ran], [one.tokens for one in free_runs]),
        ("seconds", [one.seconds for one in ran], [one.seconds for one in free_runs]),
    ):
        print(
            f"{name:8} median {statistics.median(figures):.2f}, mean {statistics.mean(figures):.2f}, most "
            f"{max(figures):.2f}; free: median {statistics.median(free):.2f}, mean {statistics.mean(free):.2f}"
        )
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main())
