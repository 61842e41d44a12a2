"""A drawing as data: its contents and their positions, from the upper left corner. Lengths are shares of the side of a
square with the picture's area."""

from __future__ import annotations

import math
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
