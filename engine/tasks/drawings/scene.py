"""A drawing as data: what is in it and where. Lengths are shares of the picture's side, from its upper left corner."""

from __future__ import annotations

import random
from dataclasses import dataclass

Colour = tuple[int, int, int]  # RGB, 0 to 255

COLOURS: dict[str, Colour] = {
    "red": (214, 40, 40),
    "green": (40, 160, 70),
    "blue": (35, 95, 215),
    "yellow": (245, 205, 25),
    "purple": (150, 60, 185),
    "black": (25, 25, 25),
}
SHAPES = ("circle", "square", "triangle", "star")
FONTS = ("Inter-SemiBold", "JetBrainsMono-Bold")
MOST_SHAPES = 5

_JITTER = 14  # of each channel of a colour
_GAP = 0.03  # between two shapes
_EDGE = 0.02
_NUMBERS = 0.3  # share of the drawings
_DIGITS = (1, 2, 2, 3, 3)


@dataclass(frozen=True)
class DrawnShape:
    """A filled shape. ``radius`` of the circle around it; ``turn`` in degrees."""

    kind: str
    colour: str
    paint: Colour
    x: float
    y: float
    radius: float
    turn: float


@dataclass(frozen=True)
class Number:
    """A number in a typeface; ``height`` of its type, around (x, y)."""

    text: str
    colour: str
    paint: Colour
    x: float
    y: float
    height: float
    font: str


@dataclass(frozen=True)
class Scene:
    """A drawing: shapes, or a number."""

    ground: Colour
    shapes: tuple[DrawnShape, ...] = ()
    number: Number | None = None


def random_scene(rng: random.Random) -> Scene:
    """Shapes that do not touch, or a number."""
    light = rng.randint(244, 255)
    ground = (light, light, light)
    if rng.random() < _NUMBERS:
        return Scene(ground, number=_number(rng))
    shapes: list[DrawnShape] = []
    # Of few kinds and colours, so that several are alike.
    kinds, colours = rng.choices(SHAPES, k=4), rng.choices(list(COLOURS), k=5)
    for _ in range(rng.randint(1, MOST_SHAPES)):
        while True:  # five of these always find room
            radius = rng.uniform(0.1, 0.15)
            x, y = (rng.uniform(_EDGE + radius, 1 - _EDGE - radius) for _ in range(2))
            if all((x - o.x) ** 2 + (y - o.y) ** 2 > (radius + o.radius + _GAP) ** 2 for o in shapes):
                break
        kind, colour = rng.choice(kinds), rng.choice(colours)
        shapes.append(DrawnShape(kind, colour, _paint(rng, colour), x, y, radius, rng.uniform(-15, 15)))
    return Scene(ground, tuple(shapes))


def _number(rng: random.Random) -> Number:
    digits = rng.choice(_DIGITS)
    text = str(rng.randint(10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1))
    colour = rng.choice([name for name in COLOURS if name != "yellow"])  # which would be hard to read
    height = rng.uniform(0.3, 0.42)
    reach = 0.33 * digits * height + _EDGE  # more than half of its width
    x, y = rng.uniform(reach, 1 - reach), rng.uniform(0.5 * height + _EDGE, 1 - 0.5 * height - _EDGE)
    return Number(text, colour, _paint(rng, colour), x, y, height, rng.choice(FONTS))


def _paint(rng: random.Random, colour: str) -> Colour:
    red, green, blue = (min(255, max(0, part + rng.randint(-_JITTER, _JITTER))) for part in COLOURS[colour])
    return red, green, blue
