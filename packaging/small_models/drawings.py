"""Questions about small drawings with answers that a program can check: shapes, colours, counts, places, numbers.

One question in sixteen is held out of training, by a hash of what decides it: the question and everything in the
drawing, or the number. Positions and wording do not matter.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.tasks.decisions.questions import OneOf, Score, YesNo
from engine.tasks.drawings import COLOURS, SHAPES, Scene
from small_models import decision_facts as facts
from small_models.drawing_questions import KINDS, MAX_SHAPES, Asked, random_scene
from small_models.drawing_rules import solve
from small_models.skills import is_held_out_content

Split = Literal["train", "test"]
MAX_QUESTION = 34  # characters
MAX_PROPORTION = 3.0  # the longest side of a random drawing, divided by the other
WEIGHTS = {
    "count": 1.0,
    "count of a colour": 1.0,
    "colour": 0.8,
    "shape": 0.8,
    "side": 5.0,
    "presence": 1.0,
    "number": 6.0,
}
"""How often each kind is drawn, among the kinds that a scene allows."""
RARELY = 0.1  # weight of questions about shapes if there is a number

COUNTS = ("none", "one", "two", "three", "four", "five")[: MAX_SHAPES + 1]
"""Levels of a number of things: each level is worth the number that it names."""
DECIDED_KINDS = ("presence", "colour", "shape", "side", "count", "count of a colour")
"""The kinds of questions that have few enough answers for a decision."""
_MAX_TRIES = 100_000


@dataclass(frozen=True)
class DrawingExample:
    """A drawing and questions about it, each with its answer."""

    scene: Scene
    asked: tuple[Asked, ...]


@dataclass(frozen=True)
class DrawingDecision:
    """A drawing and typed questions about it; the family of each is its kind."""

    scene: Scene
    asked: tuple[facts.Asked, ...]


def check(scene: Scene, question: str, answer: str) -> bool:
    """True if an answer, apart from surrounding spaces, is the right one."""
    solved = solve(scene, question)
    return solved is not None and answer.strip() == solved.answer


def is_held_out(scene: Scene, question: str) -> bool:
    """True if a question about a scene is kept for the test split."""
    solved = solve(scene, question)
    return solved is not None and is_held_out_content(solved.content)


def sample(
    rng: random.Random, split: Split, questions: int = 1, kind: str | None = None, proportion: float = 1.0
) -> DrawingExample:
    """Draws a scene of a proportion and ``questions`` questions of a split, of the given kind or of any."""
    return DrawingExample(*_sample(rng, split, questions, kind, tuple(KINDS), proportion))


def sample_decision(
    rng: random.Random, split: Split, questions: int = 1, kind: str | None = None, proportion: float = 1.0
) -> DrawingDecision:
    """Draws a scene and typed questions, of the given one of ``DECIDED_KINDS`` or of any of them."""
    scene, asked = _sample(rng, split, questions, kind, DECIDED_KINDS, proportion)
    return DrawingDecision(scene, tuple(as_decision(rng, scene, question) for question, _ in asked))


def as_decision(rng: random.Random, scene: Scene, question: str) -> facts.Asked:
    """Returns a question of one of ``DECIDED_KINDS`` as a typed one, in the same words.

    Raises:
        ValueError: it is not of these kinds, or the scene does not decide it.
    """
    solved = solve(scene, question)
    if solved is None or solved.kind not in DECIDED_KINDS:
        raise ValueError(f"no decision about this drawing: {question}")
    match solved.kind:
        case "presence":
            return facts.Asked(solved.kind, YesNo(question), ("yes", "no").index(solved.answer))
        case "count" | "count of a colour":
            return facts.Asked(solved.kind, Score(question, facts.options(COUNTS)), int(solved.answer))
        case kind:
            names = _some(rng, solved.answer, tuple(COLOURS) if kind == "colour" else SHAPES)
            return facts.Asked(kind, OneOf(question, facts.options(names)), names.index(solved.answer))


def _some(rng: random.Random, right: str, known: Sequence[str]) -> list[str]:
    """Returns the right name and one or more others, in random order."""
    others = rng.sample([name for name in known if name != right], rng.randint(1, len(known) - 1))
    return rng.sample([right, *others], len(others) + 1)


def _sample(
    rng: random.Random, split: Split, questions: int, kind: str | None, kinds: Collection[str], proportion: float
) -> tuple[Scene, tuple[Asked, ...]]:
    for _ in range(_MAX_TRIES):
        scene = random_scene(rng, proportion)
        asked: list[Asked] = []
        for _ in range(4 * questions):
            one = ask(rng, scene, kinds) if kind is None else KINDS[kind](rng, scene)
            if one is not None and is_held_out(scene, one[0]) == (split == "test"):
                asked.append(one)
            if len(asked) == questions:
                return scene, tuple(asked)
    raise RuntimeError(f"no drawing for the {split} split")


def ask(rng: random.Random, scene: Scene, kinds: Collection[str] = tuple(KINDS)) -> Asked:
    """Draws a question about a scene, with its answer, of the given kinds; "count" must be among them."""
    weights = {
        kind: weight * (RARELY if scene.number is not None and kind not in ("number", "colour") else 1.0)
        for kind, weight in WEIGHTS.items()
        if kind in kinds
    }
    while True:  # ends, since things can always be counted
        (kind,) = rng.choices(list(weights), list(weights.values()))
        if (asked := KINDS[kind](rng, scene)) is not None:
            return asked


def random_proportion(rng: random.Random) -> float:
    """Draws a proportion, up to the longest side, upright as often as wide."""
    return math.exp(rng.uniform(-1, 1) * math.log(MAX_PROPORTION))
