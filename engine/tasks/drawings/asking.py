"""Draws questions about a scene, with their answers."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

from engine.tasks.drawings.scene import COLOURS, SHAPES, DrawnShape, Scene
from engine.tasks.skills.skill import plain

Asked = tuple[str, str]
"""A question and its answer."""

APART = 0.1  # least distance that counts as being on one side
_SIDES = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}


def _count(rng: random.Random, scene: Scene) -> Asked | None:
    kinds = [shape.kind for shape in scene.shapes]
    asked = rng.choice(sorted({"shape", *kinds}) if rng.random() < 0.8 else SHAPES)
    return _worded(
        rng,
        ("How many {a}s are there?", "Count the {a}s."),
        str(len(kinds) if asked == "shape" else kinds.count(asked)),
        asked,
    )


def _count_colour(rng: random.Random, scene: Scene) -> Asked | None:
    colours = [shape.colour for shape in scene.shapes]
    asked = rng.choice(sorted(set(colours)) if colours and rng.random() < 0.8 else list(COLOURS))
    wordings = ("How many {a} shapes are there?", "How many shapes are {a}?")
    return _worded(rng, wordings, str(colours.count(asked)), asked)


def _colour(rng: random.Random, scene: Scene) -> Asked | None:
    known = {shape.kind: shape.colour for shape in _singles(scene, lambda shape: shape.kind)}
    if scene.number is not None:
        known["number"] = scene.number.colour
    if not known:
        return None
    asked = rng.choice(list(known))
    return _worded(rng, ("What colour is the {a}?", "What color is the {a}?"), known[asked], asked)


def _shape(rng: random.Random, scene: Scene) -> Asked | None:
    known = _singles(scene, lambda shape: shape.colour)
    if not known:
        return None
    shape = rng.choice(known)
    return _worded(rng, ("What shape is {a}?", "Which shape is {a}?"), shape.kind, shape.colour)


def _side(rng: random.Random, scene: Scene) -> Asked | None:
    known = _singles(scene, lambda shape: shape.kind)
    if not known or len(scene.shapes) < 2:
        return None
    centre, (side, (across, down)) = rng.choice(known), rng.choice(list(_SIDES.items()))
    gaps = {
        other: across * (other.x - centre.x) + down * (other.y - centre.y)
        for other in scene.shapes
        if other is not centre
    }
    there = [other for other, gap in gaps.items() if gap > 0]
    if len(there) != 1 or min(map(abs, gaps.values())) < APART:
        return None
    return f"What is {side} the {centre.kind}?", there[0].kind


def _presence(rng: random.Random, scene: Scene) -> Asked | None:
    pairs = {(shape.colour, shape.kind) for shape in scene.shapes}
    if pairs and rng.random() < 0.5:
        colour, kind = rng.choice(sorted(pairs))
    else:  # a colour or a shape that is there, so that both must be seen in one place
        absent = [(colour, kind) for colour in COLOURS for kind in SHAPES if (colour, kind) not in pairs]
        near = [(colour, kind) for colour, kind in absent if any(colour == c or kind == k for c, k in pairs)]
        colour, kind = rng.choice(near if near and rng.random() < 0.8 else absent)
    return f"Is there a {colour} {kind}?", "yes" if (colour, kind) in pairs else "no"


def _number(rng: random.Random, scene: Scene) -> Asked | None:
    if scene.number is None:
        return None
    return rng.choice(("Which number is written?", "What number is this?")), scene.number.text


KINDS: dict[str, Callable[[random.Random, Scene], Asked | None]] = {
    "count": _count,
    "count of a colour": _count_colour,
    "colour": _colour,
    "shape": _shape,
    "side": _side,
    "presence": _presence,
    "number": _number,
}
"""Draws a question of each kind about a scene; None if the scene allows none."""

_S, _C = rf"(?P<shape>{'|'.join(SHAPES)})", rf"(?P<colour>{'|'.join(COLOURS)})"
_ANY = rf"(?P<shape>shape|{'|'.join(SHAPES)})"
PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE | re.ASCII))
    for kind, pattern in (
        ("count", rf"how many {_ANY}s are there"),
        ("count", rf"count the {_ANY}s"),
        ("count of a colour", rf"how many {_C} shapes are there"),
        ("count of a colour", rf"how many shapes are {_C}"),
        ("colour", rf"(?:what|which) colou?r is the (?P<shape>number|{'|'.join(SHAPES)})"),
        ("shape", rf"(?:what|which) shape is {_C}"),
        ("side", rf"what is (?P<side>left of|right of|above|below) the {_S}"),
        ("presence", rf"is there a {_C} {_S}"),
        ("number", r"(?:which|what) number is (?:written|this)"),
    )
)
"""The wordings of each kind."""


def is_question(text: str) -> bool:
    """Returns True if a text is one of the questions, about whatever scene."""
    return any(pattern.fullmatch(plain(text)) for _, pattern in PATTERNS)


def _singles(scene: Scene, key: Callable[[DrawnShape], str]) -> list[DrawnShape]:
    """Returns the shapes whose key no other shape has."""
    counts = Counter(map(key, scene.shapes))
    return [shape for shape in scene.shapes if counts[key(shape)] == 1]


def _worded(rng: random.Random, wordings: tuple[str, str], answer: str, asked: str) -> Asked:
    return rng.choice(wordings).format(a=asked), answer
