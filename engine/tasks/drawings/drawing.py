"""Draws a scene as pixels, with Pillow."""

from __future__ import annotations

import functools
import io
import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from engine.catalog import ASSETS
from engine.pictures import Picture, open_picture
from engine.tasks.drawings.scene import DrawnShape, Number, Scene

SIDE = 128  # pixels
_FINER = 3  # supersampling factor while drawing, so that edges are smooth
_CORNERS = {"square": (4, 45.0), "triangle": (3, -90.0), "star": (5, -90.0)}  # their number, the first one's angle
_NOTCH = 0.42  # a star's inner radius, as a share of its outer one


def draw(scene: Scene, side: int = SIDE) -> NDArray[np.uint8]:
    """Draws the picture (H, W, 3), RGB, with the area of a square of this side."""
    wide = _FINER * side
    size = _FINER * round(side * scene.width), _FINER * round(side * scene.height)
    image = Image.new("RGB", size, scene.ground)
    pen = ImageDraw.Draw(image)
    for shape in scene.shapes:
        _draw_shape(pen, shape, wide)
    if scene.number is not None:
        _draw_number(pen, scene.number, wide)
    return np.asarray(image.reduce(_FINER))


def picture_of(scene: Scene) -> Picture:
    """Returns the drawing as an image file, as users open them."""
    file = io.BytesIO()
    Image.fromarray(draw(scene)).save(file, "PNG")
    return open_picture(file.getvalue())


def _draw_shape(pen: ImageDraw.ImageDraw, shape: DrawnShape, wide: int) -> None:
    x, y, radius = wide * shape.x, wide * shape.y, wide * shape.radius
    if shape.kind == "circle":
        radius *= 0.9  # so that it looks as large as the others
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
    pen.text(place, number.text, font=font_of(number.font, round(wide * number.height)), fill=number.paint, anchor="mm")


@functools.lru_cache(maxsize=256)
def font_of(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(ASSETS / "fonts" / f"{name}.ttf", size)
