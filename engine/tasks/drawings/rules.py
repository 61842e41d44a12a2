"""Reads the right answer to a question from a scene, and what the question is about.

Independent of what asks the questions (``asking``), so that each checks the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engine.tasks.drawings.scene import COLOURS, SHAPES, Scene, Shape

APART = 0.1  # least distance that counts as being on one side


@dataclass(frozen=True)
class Solved:
    """A question's kind, its answer, and its content: what decides it, whatever the wording."""

    kind: str
    answer: str
    content: str


Parts = dict[str, str]
Rule = Callable[[Scene, Parts], tuple[str, Sequence[object]] | None]
"""From a scene and the parts of the question to the right answer and what it depends on; None if there is none."""


def solve(scene: Scene, question: str) -> Solved | None:
    """The right answer to a question about a scene; None if it is none of these, or the scene does not decide it."""
    text = " ".join(question.split()).rstrip(" .?!")
    for kind, rule, pattern in _RULES:
        match = pattern.fullmatch(text)
        found = rule(scene, {name: part.lower() for name, part in match.groupdict().items() if part}) if match else None
        if found is not None:
            answer, about = found
            return Solved(kind, answer, "|".join([kind, *map(str, about)]))
    return None


# --- a rule each ---------------------------------------------------------------------------------------------------


def _things(scene: Scene) -> list[str]:
    return sorted(f"{shape.colour} {shape.kind}" for shape in scene.shapes)


def _count(scene: Scene, parts: Parts) -> tuple[str, Sequence[object]]:
    found = [shape for shape in scene.shapes if parts["shape"] in ("shape", shape.kind)]
    return str(len(found)), (parts["shape"], *_things(scene))


def _count_colour(scene: Scene, parts: Parts) -> tuple[str, Sequence[object]]:
    found = [shape for shape in scene.shapes if shape.colour == parts["colour"]]
    return str(len(found)), (parts["colour"], *_things(scene))


def _colour(scene: Scene, parts: Parts) -> tuple[str, Sequence[object]] | None:
    if parts["shape"] == "number":
        return None if scene.number is None else (scene.number.colour, (scene.number.colour, scene.number.text))
    shape = _only(shape for shape in scene.shapes if shape.kind == parts["shape"])
    return None if shape is None else (shape.colour, (parts["shape"], *_things(scene)))


def _shape(scene: Scene, parts: Parts) -> tuple[str, Sequence[object]] | None:
    shape = _only(shape for shape in scene.shapes if shape.colour == parts["colour"])
    return None if shape is None else (shape.kind, (parts["colour"], *_things(scene)))


def _side(scene: Scene, parts: Parts) -> tuple[str, Sequence[object]] | None:
    centre = _only(shape for shape in scene.shapes if shape.kind == parts["shape"])
    if centre is None:
        return None
    others = [shape for shape in scene.shapes if shape is not centre]
    sign = 1 if parts["side"] in ("right of", "below") else -1
    across = parts["side"] in ("left of", "right of")
    gaps = [sign * (shape.x - centre.x if across else shape.y - centre.y) for shape in others]
    if any(abs(gap) < APART for gap in gaps):
        return None
    shape = _only(shape for shape, gap in zip(others, gaps, strict=True) if gap > 0)
    return None if shape is None else (shape.kind, (parts["side"], parts["shape"], shape.kind, *_things(scene)))


def _there(scene: Scene, parts: Parts) -> tuple[str, Sequence[object]]:
    found = any(shape.kind == parts["shape"] and shape.colour == parts["colour"] for shape in scene.shapes)
    return "yes" if found else "no", (parts["colour"], parts["shape"], *_things(scene))


def _number(scene: Scene, _parts: Parts) -> tuple[str, Sequence[object]] | None:
    return None if scene.number is None else (scene.number.text, (scene.number.text,))


def _only(shapes: Iterable[Shape]) -> Shape | None:
    """The shape, if it is one alone."""
    found = list(shapes)
    return found[0] if len(found) == 1 else None


_S, _C = rf"(?P<shape>{'|'.join(SHAPES)})", rf"(?P<colour>{'|'.join(COLOURS)})"
_ANY = rf"(?P<shape>shape|{'|'.join(SHAPES)})"
_RULES: tuple[tuple[str, Rule, re.Pattern[str]], ...] = tuple(
    (kind, rule, re.compile(pattern, re.IGNORECASE | re.ASCII))
    for kind, rule, pattern in (
        ("count", _count, rf"how many {_ANY}s are there"),
        ("count", _count, rf"count the {_ANY}s"),
        ("count of a colour", _count_colour, rf"how many {_C} shapes are there"),
        ("count of a colour", _count_colour, rf"how many shapes are {_C}"),
        ("colour", _colour, rf"(?:what|which) colou?r is the (?P<shape>number|{'|'.join(SHAPES)})"),
        ("shape", _shape, rf"(?:what|which) shape is {_C}"),
        ("side", _side, rf"what is (?P<side>left of|right of|above|below) the {_S}"),
        ("presence", _there, rf"is there a {_C} {_S}"),
        ("number", _number, r"(?:which|what) number is (?:written|this)"),
    )
)
