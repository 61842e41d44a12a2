"""Output of a model, in any pieces: tags, halves of tags, calls of tools in every disorder."""

from __future__ import annotations

from pathlib import Path
from random import Random

from engine.text.tags import TAGS
from tests.engine.text.outputs import WORDS, problem, random_output, split
from tests.hostile.kind import Attempt, Kind


def _make(random: Random, folder: Path) -> Attempt:  # noqa: ARG001
    if random.random() < 0.05:  # long: one thing again and again, with a little of another
        units = [random.choice((*TAGS, *WORDS, random_output(random))) for _ in range(random.randrange(1, 4))]
        text = "".join(random.choice(units) for _ in range(random.randrange(2_000)))
    else:
        text = random_output(random, random.choice((4, 14, 60)))
    pieces, starts_in_thought = split(random, text), random.random() < 0.2

    def attempt() -> None:
        found = problem(text, pieces, starts_in_thought=starts_in_thought)
        assert not found, found

    return attempt


KINDS = (Kind("outputs", _make),)
