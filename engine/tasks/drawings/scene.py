"""A drawing as data: its contents and their positions, from the upper left corner. Lengths are shares of the side of a
square with the picture's area."""

from __future__ import annotations

import dataclasses
import math
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

_JITTER = 14  # half the range by which each channel of a colour varies
_GAP = 0.03  # between two shapes
_EDGE = 0.02
_NUMBERS = 0.3  # share of drawings with a number
_DIGITS = (1, 2, 2, 3, 3)
_MAX_TRIES = 200  # attempts to find room for one shape


@dataclass(frozen=True)
class DrawnShape:
    """A filled shape. ``radius`` is of its circumscribed circle; ``turn`` in degrees."""

    kind: str
    colour: str
    paint: Colour
    x: float
    y: float
    radius: float
    turn: float


@dataclass(frozen=True)
class Number:
    """A number in a typeface, around (x, y); ``height`` is the font size."""

    text: str
    colour: str
    paint: Colour
    x: float
    y: float
    height: float
    font: str


@dataclass(frozen=True)
class Scene:
    """A drawing: shapes, or a number. ``proportion`` is its width divided by its height."""

    ground: Colour
    shapes: tuple[DrawnShape, ...] = ()
    number: Number | None = None
    proportion: float = 1.0

    @property
    def width(self) -> float:
        return math.sqrt(self.proportion)

    @property
    def height(self) -> float:
        return 1 / math.sqrt(self.proportion)


def random_scene(rng: random.Random, proportion: float = 1.0) -> Scene:
    """Draws a scene with shapes that do not touch, or with a number."""
    light = rng.randint(244, 255)
    empty = Scene((light, light, light), proportion=proportion)
    if rng.random() < _NUMBERS:
        return dataclasses.replace(empty, number=_number(rng, empty))
    # few kinds and colours, so that several shapes are alike
    kinds, colours = rng.choices(SHAPES, k=4), rng.choices(list(COLOURS), k=5)
    count = rng.randint(1, MOST_SHAPES)
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


def _number(rng: random.Random, scene: Scene) -> Number:
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
