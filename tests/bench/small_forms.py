"""Small forms on small canvases: ``python -m tests.bench.small_forms --count 100``.

The skills model answers random schemas with a bound, and held-out tasks whose answers are numbers or weekdays, each on
canvases that fit the format, on its own, and on larger ones. Prints which answers are whole, valid and right, and what
they take; exits with 1 where one is invalid.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from random import Random

import torch

from engine import SKILLS, GenerationConfig, Model, load_model
from engine.tasks.skills import sample
from engine.text.longest_answer import longest_answer
from engine.text.output_format import OutputFormat
from tests.bench.structured import PROMPTS, Answered, answered
from tests.engine.text.formats import closed, problem, random_schema

NUMBER = OutputFormat("json_schema", {"type": "integer", "minimum": 0, "maximum": 9_999})
DAYS = OutputFormat("choices", choices=("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))
FORMATS = {"add": NUMBER, "subtract": NUMBER, "count_letters": NUMBER, "words_to_number": NUMBER, "weekday": DAYS}


@dataclass(frozen=True)
class SmallForm:
    """A prompt and the format of its answer; the right answer, if there is one."""

    prompt: str
    wanted: OutputFormat
    right: str = ""


def random_forms(count: int, most: int = 120) -> list[SmallForm]:
    found, number = list[SmallForm](), 0
    while len(found) < count:
        random = Random(number)
        wanted = OutputFormat("json_schema", closed(random_schema(random), random))
        longest, number = longest_answer(wanted), number + 1
        if longest is not None and longest <= most:
            found.append(SmallForm(random.choice(PROMPTS), wanted))
    return found


def held_out(count: int) -> list[SmallForm]:
    random, found = Random(39), list[SmallForm]()
    for at in range(count):
        one = sample(random, "test", [*FORMATS][at % len(FORMATS)])
        found.append(SmallForm(one.prompt, FORMATS[one.skill], one.answer))
    return found


def report(model: Model, title: str, forms: list[SmallForm], canvases: dict[str, GenerationConfig]) -> int:
    """Prints a line for each kind of canvas; returns how many answers are invalid."""
    wrong = 0
    for name, config in canvases.items():
        ran, lengths = list[Answered](), list[int]()
        for seed, form in enumerate(forms):
            fitting = config if config.canvas_length else config.fitting(longest_answer(form.wanted), 64)
            lengths.append(fitting.canvas(64))
            ran.append(answered(model, form.prompt, seed, form.wanted, config=fitting))
        pairs = list(zip(forms, ran, strict=True))
        invalid = sum(one.reason == "eos" and bool(problem(form.wanted, one.text)) for form, one in pairs)
        longer = sum(len(one.text.encode()) > (longest_answer(form.wanted) or 0) for form, one in pairs)
        right = sum(one.text == form.right for form, one in pairs)
        wrong += invalid
        print(
            f"{title}, {name}: canvas {statistics.mean(lengths):.0f} on average, "
            f"{sum(one.reason == 'eos' for one in ran)} of {len(ran)} whole, {invalid} invalid, "
            f"{longer} longer than their bound, {right} right, "
            f"steps {statistics.mean(one.steps for one in ran):.2f}, rounds "
            f"{statistics.mean(one.rounds for one in ran):.2f}, seconds {sum(one.seconds for one in ran):.2f}, median "
            f"{1e3 * statistics.median(one.seconds for one in ran):.0f} ms",
            flush=True,
        )
    return wrong


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.small_forms", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="random forms, and held-out tasks")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(SKILLS, device="cpu")
    own = model.generation_defaults
    canvases = {
        "16 and up": own.replace(smallest_canvas=16),
        "its own of 64": own.replace(canvas_length=64),
        "of 256": own.replace(canvas_length=256),
    }
    wrong = report(model, "random forms", random_forms(options.count), canvases)
    return 1 if wrong + report(model, "held-out tasks", held_out(options.count), canvases) else 0


if __name__ == "__main__":
    sys.exit(main())
