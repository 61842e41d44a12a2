"""Computes the right answer to a question from a scene, and the content that decides it.

Independent of ``drawing_questions``, which draws the questions, so that each checks the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.tasks.drawings.asking import PATTERNS
from engine.tasks.drawings.scene import DrawnShape, Scene
from engine.tasks.skills.skill import plain
from small_models.drawing_questions import APART


@dataclass(frozen=True)
class RightAnswer:
    """A question's kind, its answer, and its content: what decides it, whatever the wording.

    ``seen`` are the indices of the scene's shapes that decide it, ``first`` of those to be found before.
    """

    kind: str
    answer: str
    content: str
    seen: tuple[int, ...] = ()
    first: tuple[int, ...] = ()


class Found(NamedTuple):
    """An answer, what it depends on, and the shapes as in ``RightAnswer``."""

    answer: str
    about: Sequence[object]
    seen: Sequence[DrawnShape] = ()
    first: Sequence[DrawnShape] = ()


Parts = dict[str, str]
Rule = Callable[[Scene, Parts], Found | None]
"""Takes a scene and the parts of the question; returns the right answer, or None if there is none."""


def solve(scene: Scene, question: str) -> RightAnswer | None:
    """Returns the right answer to a question about a scene; None for another question, or if the scene does not decide
    it."""
    text = plain(question)
    for kind, pattern in PATTERNS:
        rule = _RULES[kind]
        match = pattern.fullmatch(text)
        found = rule(scene, {name: part.lower() for name, part in match.groupdict().items() if part}) if match else None
        if found is not None:
            seen, first = (
                tuple(place for place, shape in enumerate(scene.shapes) if shape in shapes)
                for shapes in (found.seen, found.first)
            )
            return RightAnswer(kind, found.answer, "|".join([kind, *map(str, found.about)]), seen, first)
    return None


def _things(scene: Scene) -> list[str]:
    return sorted(f"{shape.colour} {shape.kind}" for shape in scene.shapes)


def _count(scene: Scene, parts: Parts) -> Found:
    shapes = [shape for shape in scene.shapes if parts["shape"] in ("shape", shape.kind)]
    return Found(str(len(shapes)), (parts["shape"], *_things(scene)), shapes)


def _count_colour(scene: Scene, parts: Parts) -> Found:
    shapes = [shape for shape in scene.shapes if shape.colour == parts["colour"]]
    return Found(str(len(shapes)), (parts["colour"], *_things(scene)), shapes)


def _colour(scene: Scene, parts: Parts) -> Found | None:
    if parts["shape"] == "number":
        number = scene.number
        return None if number is None else Found(number.colour, (number.colour, number.text))
    shape = _only(shape for shape in scene.shapes if shape.kind == parts["shape"])
    return None if shape is None else Found(shape.colour, (parts["shape"], *_things(scene)), (shape,))


def _shape(scene: Scene, parts: Parts) -> Found | None:
    shape = _only(shape for shape in scene.shapes if shape.colour == parts["colour"])
    return None if shape is None else Found(shape.kind, (parts["colour"], *_things(scene)), (shape,))


def _side(scene: Scene, parts: Parts) -> Found | None:
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
    if shape is None:
        return None
    return Found(shape.kind, (parts["side"], parts["shape"], shape.kind, *_things(scene)), (shape,), (centre,))


def _there(scene: Scene, parts: Parts) -> Found:
    shapes = [shape for shape in scene.shapes if shape.kind == parts["shape"] and shape.colour == parts["colour"]]
    return Found("yes" if shapes else "no", (parts["colour"], parts["shape"], *_things(scene)), shapes)


def _number(scene: Scene, _parts: Parts) -> Found | None:
    return None if scene.number is None else Found(scene.number.text, (scene.number.text,))


def _only(shapes: Iterable[DrawnShape]) -> DrawnShape | None:
    """Returns the only shape; None if there are several."""
    found = list(shapes)
    return found[0] if len(found) == 1 else None


_RULES: dict[str, Rule] = {
    "count": _count,
    "count of a colour": _count_colour,
    "colour": _colour,
    "shape": _shape,
    "side": _side,
    "presence": _there,
    "number": _number,
}
