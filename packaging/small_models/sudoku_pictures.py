"""Sudokus as photographed from a page: drawn by Pillow, tilted, unevenly lit, slightly blurred.

Held-out pictures show puzzles of the test split; training pictures show random digits.
"""

from __future__ import annotations

import functools
import io
import math
import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from engine.catalog import ASSETS
from engine.pictures import Picture, open_picture
from engine.tasks import sudoku
from engine.tasks.sudoku_pictures import EMPTY

FONTS = ("Inter-Regular", "Inter-SemiBold", "Inter-Italic", "JetBrainsMono-Regular", "JetBrainsMono-Bold", None)
_CELL = 30  # pixels of a cell on the page
_INK = ((20, 20, 24), (45, 45, 50), (25, 35, 95), (70, 30, 30))
_FINER = 2  # supersampling factor while drawing, so that edges are smooth


@dataclass(frozen=True)
class Photograph:
    """A picture of a board. ``to_grid`` maps shares of the picture's sides, (x, y, 1), to cells of the grid."""

    board: str
    pixels: NDArray[np.uint8]
    to_grid: NDArray[np.float64]

    def labels(self, rows: int, columns: int) -> NDArray[np.uint8]:
        """Returns the content of each cell of the picture, divided into ``rows`` by ``columns``, row by row: (cells,
        4).

        The digit, row and column (from 1) of the grid's cell at the middle of the picture's cell, all 0 off the grid;
        and 1 if the middle of that grid cell is in it.
        """
        found = np.zeros((rows, columns, 4), dtype=np.uint8)
        ys, xs = np.mgrid[:rows, :columns] + 0.5
        across, down = _moved(self.to_grid, xs / columns, ys / rows)
        inside = (across >= 0) & (across < 9) & (down >= 0) & (down < 9)
        row, column = (np.where(inside, place, 0).astype(int) for place in (down, across))
        digits = np.array([int(sign) for sign in self.board]).reshape(9, 9)
        found[..., :3] = np.stack([digits[row, column], 1 + row, 1 + column], axis=-1) * inside[..., None]
        for place, (y, x) in enumerate(self.middles(rows, columns)):
            found[y, x] = int(self.board[place]), 1 + place // 9, 1 + place % 9, 1
        return found.reshape(-1, 4)

    def picture(self) -> Picture:
        """Returns the photograph as an image file, as users open them."""
        file = io.BytesIO()
        Image.fromarray(self.pixels).save(file, "PNG")
        return open_picture(file.getvalue())

    def middles(self, rows: int, columns: int) -> list[tuple[int, int]]:
        """Returns row and column, of a picture divided into ``rows`` by ``columns``, of the middle of each of the
        board's cells."""
        down, across = np.divmod(np.arange(81), 9) + np.array([[0.5], [0.5]])
        to_picture: NDArray[np.float64] = np.linalg.inv(self.to_grid).astype(np.float64)
        xs, ys = _moved(to_picture, across, down)
        return [(int(y * rows), int(x * columns)) for x, y in zip(xs, ys, strict=True)]


def photograph(rng: random.Random, board: str, side: int = 256) -> Photograph:
    """Draws a board of 81 digits, 0 for an empty cell, as a picture with the area of a square of this side."""
    proportion = math.exp(rng.uniform(-0.2, 0.2))
    width, height = round(side * math.sqrt(proportion)), round(side / math.sqrt(proportion))
    page, margin = _page(rng, board)
    corners = _corners(rng, width, height)
    onto_page = np.array([[0, 0], [9, 0], [9, 9], [0, 9]]) * _CELL + margin
    coefficients = _homography(corners, onto_page)
    desk = tuple(rng.randint(40, 240) for _ in range(3)) if rng.random() < 0.5 else page.getpixel((1, 1))
    tilted = page.transform(
        (width, height),
        Image.Transform.PERSPECTIVE,
        tuple(coefficients.flatten()[:8]),
        Image.Resampling.BICUBIC,
        fillcolor=desk,
    )
    if rng.random() < 0.6:
        tilted = tilted.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.9) * side / 256))
    shares = _homography(corners / (width, height), np.array([[0, 0], [9, 0], [9, 9], [0, 9]]))
    return Photograph(board, _lit(rng, tilted), shares)


def _page(rng: random.Random, board: str) -> tuple[Image.Image, int]:
    """Draws the flat page; also returns the distance of the grid from its edges."""
    cell = _FINER * _CELL
    margin, light = _FINER * round(_CELL * rng.uniform(0.4, 2.0)), rng.randint(225, 255)
    side = 9 * cell + 2 * margin
    page = Image.new("RGB", (side, side), tuple(light - rng.randint(0, 22) for _ in range(3)))
    pen, ink = ImageDraw.Draw(page), rng.choice(_INK)
    if rng.random() < 0.25:  # every other box is shaded
        shade = tuple(part - rng.randint(8, 26) for part in page.getpixel((0, 0)))
        for box in range(0, 9, 2):
            x, y = (margin + 3 * cell * place for place in (box % 3, box // 3))
            pen.rectangle((x, y, x + 3 * cell, y + 3 * cell), fill=shade)
    thin, thick = rng.randint(1, 3), rng.randint(3, 8)
    grey = rng.randint(0, 130)
    for heavy in (False, True):
        paint, wide = (ink, thick) if heavy else ((grey,) * 3, thin)
        for line in range(10):
            if (line % 3 == 0) == heavy:
                at, last = margin + line * cell, margin + 9 * cell
                pen.line((margin, at, last, at), fill=paint, width=wide)
                pen.line((at, margin, at, last), fill=paint, width=wide)
    font, height = rng.choice(FONTS), round(cell * rng.uniform(0.68, 0.95))
    shift = [rng.uniform(-0.06, 0.06) for _ in range(2)]
    for place, digit in enumerate(board):
        if digit != "0":
            x, y = (margin + round(cell * (at + off)) for at, off in zip((place % 9, place // 9), shift, strict=True))
            page.paste(ink, (x, y), _digit(font, height, digit))
    return page.reduce(_FINER), margin // _FINER


def _corners(rng: random.Random, width: int, height: int) -> NDArray[np.float64]:
    """Draws the grid's corners in the picture, (4, 2), clockwise from the upper left: slightly rotated and skewed."""
    half = rng.uniform(0.86, 0.96) * min(width, height) / 2
    angle = math.radians(rng.gauss(0, 2.0))
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    askew = rng.choice((0.0, 0.02, 0.04))
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=np.float64)
    corners += np.array([[rng.uniform(-askew, askew) for _ in range(2)] for _ in range(4)])
    corners = half * corners @ turn.T
    low, high = corners.min(axis=0), corners.max(axis=0)
    free = np.maximum(0.0, np.array([width, height]) - (high - low))
    placed: NDArray[np.float64] = corners - low + free * np.array([rng.uniform(0.1, 0.9) for _ in range(2)])
    return placed


def _lit(rng: random.Random, image: Image.Image) -> NDArray[np.uint8]:
    """Adds light that falls off to a side, another brightness, noise, and sometimes JPEG artefacts."""
    pixels = np.asarray(image).astype(np.float32)
    ys, xs = (np.linspace(-1, 1, count, dtype=np.float32) for count in pixels.shape[:2])
    falls = [rng.uniform(-0.18, 0.18) for _ in range(4)]
    light = 1 + falls[0] * xs + falls[1] * ys[:, None] + falls[2] * xs**2 + falls[3] * ys[:, None] ** 2
    pixels *= (light * rng.uniform(0.65, 1.0))[..., None]
    generator = np.random.default_rng(rng.getrandbits(64))
    pixels += rng.uniform(0, 9) * generator.standard_normal(pixels.shape, dtype=np.float32)
    found = np.clip(pixels, 0, 255).astype(np.uint8)
    if rng.random() < 0.3:
        file = io.BytesIO()
        Image.fromarray(found).save(file, "JPEG", quality=rng.randint(50, 92))
        found = np.asarray(Image.open(file))
    return found


def _homography(given: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the homography (3, 3) that maps four points (4, 2) to four others."""
    rows = list[list[float]]()
    for (x, y), (u, v) in zip(given, wanted, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    found: NDArray[np.float64] = np.append(np.linalg.solve(np.array(rows), wanted.flatten()), 1.0).reshape(3, 3)
    return found


def _moved(
    matrix: NDArray[np.float64], xs: NDArray[np.float64], ys: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y, scale = np.einsum("ij,j...->i...", matrix, np.stack([xs, ys, np.ones_like(xs)]))
    return x / scale, y / scale


@functools.lru_cache(maxsize=4096)
def _digit(name: str | None, height: int, digit: str) -> Image.Image:
    """Draws a digit in the middle of a cell, white on black; Pillow's own typeface if no name is given."""
    mask = Image.new("L", (_FINER * _CELL,) * 2)
    font = ImageFont.truetype(ASSETS / "fonts" / f"{name}.ttf", height) if name else ImageFont.load_default(height)
    ImageDraw.Draw(mask).text((mask.width / 2, mask.height / 2), digit, font=font, fill=255, anchor="mm")
    return mask


def answer(board: str, row: int) -> str:
    """Returns the right answer to a row's question, rows from 0: nine characters, dots for empty cells."""
    return board[9 * row : 9 * row + 9].replace("0", EMPTY)


def random_board(rng: random.Random) -> str:
    """Fills a random share of the cells with random digits."""
    share = rng.uniform(0.25, 0.9)
    return "".join(rng.choice(sudoku.DIGITS) if rng.random() < share else "0" for _ in range(sudoku.SIZE))
