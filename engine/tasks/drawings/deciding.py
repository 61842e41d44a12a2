"""Questions about a drawing as decisions: yes or no, a choice of colours or shapes, a number as a score."""

from __future__ import annotations

import random
from collections.abc import Sequence

from engine.tasks.decisions.facts import Asked
from engine.tasks.decisions.questions import OneOf, Option, Score, YesNo
from engine.tasks.drawings.rules import solve
from engine.tasks.drawings.scene import COLOURS, MOST_SHAPES, SHAPES, Scene

COUNTS = ("none", "one", "two", "three", "four", "five")[: MOST_SHAPES + 1]
"""Levels of a number of things: each level is worth the number that it names."""
DECIDED_KINDS = ("presence", "colour", "shape", "side", "count", "count of a colour")
"""The kinds of questions that have few enough answers for a decision."""


def as_decision(rng: random.Random, scene: Scene, question: str) -> Asked:
    """Returns a question of one of ``DECIDED_KINDS`` as a typed one, in the same words.

    Raises:
        ValueError: it is not of these kinds, or the scene does not decide it.
    """
    solved = solve(scene, question)
    if solved is None or solved.kind not in DECIDED_KINDS:
        raise ValueError(f"no decision about this drawing: {question}")
    match solved.kind:
        case "presence":
            return Asked(solved.kind, YesNo(question), ("yes", "no").index(solved.answer))
        case "count" | "count of a colour":
            return Asked(solved.kind, Score(question, tuple(map(Option, COUNTS))), int(solved.answer))
        case kind:
            names = _some(rng, solved.answer, tuple(COLOURS) if kind == "colour" else SHAPES)
            return Asked(kind, OneOf(question, tuple(map(Option, names))), names.index(solved.answer))


def _some(rng: random.Random, right: str, known: Sequence[str]) -> list[str]:
    """Returns the right name and one or more others, in random order."""
    others = rng.sample([name for name in known if name != right], rng.randint(1, len(known) - 1))
    return rng.sample([right, *others], len(others) + 1)
