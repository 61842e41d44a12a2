"""Questions about small drawings with answers that a program can check: shapes, colours, counts, places, numbers.

One question in sixteen is held out of training, by a hash of what decides it: the question and everything in the
drawing, or the number. Positions and wording do not matter.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from engine.tasks.decisions import facts
from engine.tasks.drawings.asking import KINDS, MAX_QUESTION, Asked, ask
from engine.tasks.drawings.cells import CELL_KINDS, FIRST, cells, deciding_cells
from engine.tasks.drawings.deciding import COUNTS, DECIDED_KINDS, as_decision
from engine.tasks.drawings.drawing import SIDE, draw, picture_of
from engine.tasks.drawings.rules import solve
from engine.tasks.drawings.scene import COLOURS, SHAPES, DrawnShape, Number, Scene, random_proportion, random_scene

__all__ = [
    "CELL_KINDS",
    "COLOURS",
    "COUNTS",
    "DECIDED_KINDS",
    "FIRST",
    "HELD_OUT_ONE_IN",
    "KINDS",
    "MAX_QUESTION",
    "SHAPES",
    "SIDE",
    "SUGGESTED",
    "DrawingDecision",
    "DrawingExample",
    "DrawnShape",
    "Number",
    "Scene",
    "Split",
    "as_decision",
    "cells",
    "check",
    "deciding_cells",
    "draw",
    "is_held_out",
    "picture_of",
    "random_proportion",
    "sample",
    "sample_decision",
    "solve",
]

Split = Literal["train", "test"]

HELD_OUT_ONE_IN = 16
SUGGESTED = ("colour", "count", "shape", "number", "side")
"""Kinds of questions to suggest to users, each with a drawing of its own."""

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
    if solved is None:
        return False
    return hashlib.blake2b(solved.content.encode(), digest_size=1).digest()[0] % HELD_OUT_ONE_IN == 0


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


def _sample(
    rng: random.Random, split: Split, questions: int, kind: str | None, kinds: Collection[str], proportion: float
) -> tuple[Scene, tuple[Asked, ...]]:
    for _ in range(_MAX_TRIES):
        scene = random_scene(rng, proportion)
        asked: list[Asked] = []
        for _ in range(4 * questions):
            one = ask(rng, scene, kinds) if kind is None else KINDS[kind][0](rng, scene)
            if one is not None and is_held_out(scene, one[0]) == (split == "test"):
                asked.append(one)
            if len(asked) == questions:
                return scene, tuple(asked)
    raise RuntimeError(f"no drawing for the {split} split")
