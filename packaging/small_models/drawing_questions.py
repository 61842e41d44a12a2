"""Draws scenes, and questions about them with their answers."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable

from engine.tasks.drawings.scene import COLOURS, SHAPES, Colour, DrawnShape, Number, Scene

FONTS = ("Inter-SemiBold", "JetBrainsMono-Bold")
MAX_SHAPES = 5
_JITTER = 14  # half the range by which each channel of a colour varies
_GAP = 0.03  # between two shapes
_EDGE = 0.02
_NUMBERS = 0.3  # share of drawings with a number
_DIGITS = (1, 2, 2, 3, 3)
_MAX_TRIES = 200  # attempts to find room for one shape

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


def _singles(scene: Scene, key: Callable[[DrawnShape], str]) -> list[DrawnShape]:
    """Returns the shapes whose key no other shape has."""
    counts = Counter(map(key, scene.shapes))
    return [shape for shape in scene.shapes if counts[key(shape)] == 1]


def _worded(rng: random.Random, wordings: tuple[str, str], answer: str, asked: str) -> Asked:
    return rng.choice(wordings).format(a=asked), answer


def random_scene(rng: random.Random, proportion: float = 1.0) -> Scene:
    """Draws a scene with shapes that do not touch, or with a number."""
    light = rng.randint(244, 255)
    empty = Scene((light, light, light), proportion=proportion)
    if rng.random() < _NUMBERS:
        return dataclasses.replace(empty, number=_drawn_number(rng, empty))
    # few kinds and colours, so that several shapes are alike
    kinds, colours = rng.choices(SHAPES, k=4), rng.choices(list(COLOURS), k=5)
    count = rng.randint(1, MAX_SHAPES)
    while True:
        shapes: list[DrawnShape] = []
        for _ in range(_MAX_TRIES):
            radius = rng.uniform(0.1, 0.15)
            x, y = (rng.uniform(_EDGE + radius, side - _EDGE - radius) for side in (empty.width, empty.height))
            if all((x - o.x) ** 2 + (y - o.y) ** 2 > (radius + o.radius + _GAP) ** 2 for o in shapes):
                kind, colour = rng.choice(kinds), rng.choice(colours)
                shapes.append(DrawnShape(kind, colour, _paint(rng, colour), x, y, radius, rng.uniform(-15, 15)))
            if len(shapes) == count:
                return dataclasses.replace(empty, shapes=tuple(shapes))


def _drawn_number(rng: random.Random, scene: Scene) -> Number:
    digits = rng.choice(_DIGITS)
    text = str(rng.randint(10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1))
    colour = rng.choice([name for name in COLOURS if name != "yellow"])  # otherwise hard to read
    share = 0.33 * digits  # a little more than half of the number's width, as a share of its height
    most = min(0.42, (scene.width / 2 - _EDGE) / share)
    height = rng.uniform(min(0.3, 0.8 * most), most)
    reach = share * height + _EDGE
    x = rng.uniform(reach, scene.width - reach)
    y = rng.uniform(0.5 * height + _EDGE, scene.height - 0.5 * height - _EDGE)
    return Number(text, colour, _paint(rng, colour), x, y, height, rng.choice(FONTS))


def _paint(rng: random.Random, colour: str) -> Colour:
    red, green, blue = (min(255, max(0, part + rng.randint(-_JITTER, _JITTER))) for part in COLOURS[colour])
    return red, green, blue
