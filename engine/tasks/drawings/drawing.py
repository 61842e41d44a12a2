"""A scene as pixels, by Pillow."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from engine.catalog import ASSETS
from engine.tasks.drawings.scene import COLOURS, SHAPES, Number, Scene, Shape

SIDE = 128  # pixels
CELL_KINDS = (*SHAPES, *"0123456789")  # of what a cell holds
_FINER = 3  # times as many while it is drawn, so that edges are smooth
_CORNERS = {"square": (4, 45.0), "triangle": (3, -90.0), "star": (5, -90.0)}  # how many, and the first one's angle
_NOTCH = 0.42  # a star's inner radius, by its outer one


def draw(scene: Scene, side: int = SIDE) -> NDArray[np.uint8]:
    """The picture (side, side, 3), RGB."""
    wide = _FINER * side
    image = Image.new("RGB", (wide, wide), scene.ground)
    pen = ImageDraw.Draw(image)
    for shape in scene.shapes:
        _draw_shape(pen, shape, wide)
    if scene.number is not None:
        _draw_number(pen, scene.number, wide)
    return np.asarray(image.reduce(_FINER))


def _draw_shape(pen: ImageDraw.ImageDraw, shape: Shape, wide: int) -> None:
    x, y, radius = wide * shape.x, wide * shape.y, wide * shape.radius
    if shape.kind == "circle":
        radius *= 0.9  # as large to the eye as the others
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=shape.paint)
        return
    corners, first = _CORNERS[shape.kind]
    lengths = [radius]
    if shape.kind == "star":
        corners, lengths = 2 * corners, [radius, _NOTCH * radius]
    points = []
    for corner in range(corners):
        angle = math.radians(first + shape.turn + 360 * corner / corners)
        length = lengths[corner % len(lengths)]
        points.append((x + length * math.cos(angle), y + length * math.sin(angle)))
    pen.polygon(points, fill=shape.paint)


def _draw_number(pen: ImageDraw.ImageDraw, number: Number, wide: int) -> None:
    place = wide * number.x, wide * number.y
    pen.text(place, number.text, font=_font(number.font, round(wide * number.height)), fill=number.paint, anchor="mm")


def cells(scene: Scene, per_side: int) -> NDArray[np.uint8]:
    """What each cell of a picture cut into ``per_side`` times as many holds, row by row: (cells, 3).

    The place of what covers its middle in ``CELL_KINDS`` and of its colour in ``COLOURS``, both from 1 and 0 for none,
    and whether the middle of that thing is in the cell.
    """
    found = np.zeros((per_side, per_side, 3), dtype=np.uint8)
    middles = (np.arange(per_side) + 0.5) / per_side
    for kind, colour, (x, y), (wide, high) in _places(scene):
        covered = (np.abs(middles[:, None] - y) <= high) & (np.abs(middles[None, :] - x) <= wide)
        centre = int(y * per_side), int(x * per_side)
        covered[centre] = True
        found[covered, 0] = 1 + CELL_KINDS.index(kind)
        found[covered, 1] = 1 + list(COLOURS).index(colour)
        found[(*centre, 2)] = 1
    return found.reshape(-1, 3)


def _places(scene: Scene) -> Iterator[tuple[str, str, tuple[float, float], tuple[float, float]]]:
    """Kind, colour, middle, and half of width and height of each shape and each digit."""
    for shape in scene.shapes:
        yield shape.kind, shape.colour, (shape.x, shape.y), (0.75 * shape.radius, 0.75 * shape.radius)
    if (number := scene.number) is not None:
        font = _font(number.font, 100)
        ends = [font.getlength(number.text[:count]) / 100 * number.height for count in range(len(number.text) + 1)]
        left = number.x - ends[-1] / 2
        for digit, start, end in zip(number.text, ends, ends[1:], strict=False):
            yield digit, number.colour, (left + (start + end) / 2, number.y), ((end - start) / 2, 0.36 * number.height)


@functools.lru_cache(maxsize=256)
def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(ASSETS / "fonts" / f"{name}.ttf", size)
