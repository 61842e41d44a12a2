"""Pictures: the bytes of a file, checked, and decoded to pixels.

PNG, JPEG, WebP and GIF are read, and of an animation its first frame. Other formats are refused, by name if known. The
decoder gets only the bytes that the pixels need (``container``), once their size is within bounds.
"""

from __future__ import annotations

import base64
import hashlib
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.errors import SafelightError, quoted
from engine.files import read_bytes
from engine.pictures.container import Content, content

if TYPE_CHECKING:
    from PIL import Image
import math

BLIND = "this model cannot see images; remove them, or choose a model that can"
MAX_BYTES = 20 * 2**20
MAX_MEMORY = 448 * 2**20  # of decoding one: 67 million pixels of most files; ordinary phones have up to 50 million
MAX_SIDE = 32_767
MAX_SCANNED = 2**30  # pixels times scans: a progressive JPEG may pass over the whole picture any number of times

_FORMATS = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
}
_REFUSED = {
    b"%PDF": "a PDF",
    b"II*\x00": "a TIFF",
    b"MM\x00*": "a TIFF",
    b"BM": "a BMP",
    b"\x00\x00\x01\x00": "an icon",
    b"8BPS": "a Photoshop file",
}
_BAND = 2**18  # pixels that are converted to an array at once
_decoding = threading.Lock()  # one at a time: a decoded picture is large


@dataclass(frozen=True)
class Picture:
    """The file of a picture; ``width`` and ``height`` are in pixels, once it is turned upright."""

    digest: str  # SHA-256 of ``data``, 64 hexadecimal digits
    data: bytes = field(repr=False)
    width: int
    height: int


def is_picture(start: bytes) -> bool:
    """Returns True if a file that begins like this is a picture, in a format that is read here or in another."""
    known = [*_FORMATS, *(sign for sign in _REFUSED if len(sign) > 3)]
    return start.startswith(tuple(known)) or start[8:12] == b"WEBP" or start[4:8] == b"ftyp"


def open_picture(data: bytes, name: str = "") -> Picture:
    """Returns the picture of these bytes.

    It is decoded once, so that ``pixels`` of it succeeds. ``name`` is for messages.

    Raises:
        SafelightError: it is too large, of a format that is not read, or damaged.
    """
    with _opened(data, name) as (image, orientation):
        image.load()
        width, height = image.size if orientation < 5 else image.size[::-1]
    return Picture(hashlib.sha256(data).hexdigest(), data, width, height)


def read_picture(path: Path) -> Picture:
    """Returns the picture of a file.

    Raises:
        SafelightError: it cannot be read, or as ``open_picture``.
    """
    try:
        return open_picture(read_bytes(path, MAX_BYTES), path.name)
    except OSError as error:
        raise SafelightError(f"{path} cannot be read: {error.strerror or error}") from error


def pixels(picture: Picture) -> NDArray[np.uint8]:
    """Returns the pixels (height, width, 3): RGB, upright, white where transparent; colour profiles are not applied.

    Raises:
        SafelightError: it is damaged, or not of its declared size; neither can happen with one from ``open_picture``.
    """
    with _opened(picture.data, "") as (image, orientation):
        colours = _colours(image, orientation)
    if colours.shape[:2] != (picture.height, picture.width):
        raise SafelightError("the picture does not have the stated size; add it again")
    return colours


def thumbnail(picture: Picture, side: int) -> NDArray[np.uint8]:
    """Returns the pixels, reduced to at most ``side`` a side. For display only: a model reads ``pixels``."""
    from PIL import Image  # imported late: most sessions have no picture

    with _opened(picture.data, "") as (image, orientation):
        image.draft("RGB", (side, side))  # a JPEG is decoded at a half, a quarter or an eighth
        colours = _colours(image, orientation)
        image.close()  # frees its pixels before they are copied once more
        small = Image.fromarray(colours)
        small.thumbnail((side, side), reducing_gap=2.0)
        return np.array(small)


def data_url(picture: Picture, side: int, *, is_exact: bool = False) -> str:
    """Returns a ``thumbnail`` as a JPEG in a URL, upright and without a camera's notes on place and time.

    ``is_exact``: as a PNG, unless its file is a JPEG.

    Raises:
        SafelightError: it is damaged.
    """
    from PIL import Image  # imported late: most sessions have no picture

    kind = "PNG" if is_exact and _format_of(picture.data, "the picture") != "JPEG" else "JPEG"
    file = io.BytesIO()
    Image.fromarray(thumbnail(picture, side)).save(file, kind, quality=90)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


@contextmanager
def _opened(data: bytes, name: str) -> Iterator[tuple[Image.Image, int]]:
    """Yields an image of bounded size, not decoded yet, and its orientation; any failure becomes one error."""
    from PIL import Image  # imported late: most sessions have no picture

    called = f"the picture {quoted(name)}" if name else "the picture"
    if len(data) > MAX_BYTES:
        raise SafelightError(f"{called} has more than {MAX_BYTES // 2**20} MiB; make it smaller")
    format_name = _format_of(data, called)
    with _decoding:
        try:
            inner = content(data, format_name)
            _check_cost(inner, called)
            with Image.open(io.BytesIO(inner.data), formats=(format_name,)) as image:
                if image.size != (inner.width, inner.height):
                    raise ValueError("the decoder reads a different size")
                yield image, inner.orientation
        except SafelightError:
            raise
        except Exception:  # a decoder may raise anything on a stranger's file
            raise SafelightError(f"{called} is damaged and cannot be read; choose another one") from None


def _format_of(data: bytes, called: str) -> str:
    for start, format_name in _FORMATS.items():
        if data.startswith(start):
            return format_name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    kind = next((kind for start, kind in _REFUSED.items() if data.startswith(start)), "")
    if data[4:8] == b"ftyp":
        kind = "a HEIF, AVIF or video file"
    elif b"<svg" in data[:4096].lower():
        kind = "an SVG"
    is_what = f"is {kind}, which is not supported" if kind else "is in an unsupported format"
    raise SafelightError(f"{called} {is_what}; save it as PNG, JPEG or WebP")


def _check_cost(inner: Content, called: str) -> None:
    most = MAX_MEMORY // inner.bytes_per_pixel
    count = inner.width * inner.height
    if not (1 <= inner.width <= MAX_SIDE and 1 <= inner.height <= MAX_SIDE and count <= most):
        raise SafelightError(
            f"{called} has no size that is read here (at most {most // 10**6} million pixels of such a file, and "
            f"{MAX_SIDE:,} a side); make it smaller"
        )
    if count * inner.scans > MAX_SCANNED:
        raise SafelightError(f"{called} would take too long to decode; save it as PNG")


def _colours(image: Image.Image, orientation: int) -> NDArray[np.uint8]:
    """Returns the pixels (height, width, 3), RGB, turned upright. Converted in bands, to save memory."""
    image.load()
    width, height = image.size
    upright = np.empty((width, height, 3) if orientation > 4 else (height, width, 3), np.uint8)
    stored = upright.swapaxes(0, 1) if orientation > 4 else upright
    stored = stored[::-1] if orientation in (3, 4, 6, 7) else stored
    stored = stored[:, ::-1] if orientation in (2, 3, 7, 8) else stored
    rows = max(1, _BAND // width)
    for top in range(0, height, rows):
        band = image.crop((0, top, width, min(top + rows, height)))
        stored[top : top + rows] = np.asarray(_on_white(band))
    return upright


def _on_white(image: Image.Image) -> Image.Image:
    """Returns an image as RGB, on white where it is transparent."""
    from PIL import Image  # imported late: most sessions have no picture

    if image.mode.startswith("I"):  # 16-bit grey: the upper eight bits count, as they do in colour
        deep, clear = np.asarray(image), image.info.get("transparency")
        image = Image.fromarray(np.where(deep == clear, 255, deep >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


@dataclass(frozen=True)
class ImageCost:
    """The token counts of images for a model whose soft tokens stand for ``tile`` pixels a side each."""

    tile: int

    def tiles(self, width: int, height: int, budget: int) -> tuple[int, int]:
        """Returns the rows and columns of soft tokens of an image; their product is at most the budget."""
        factor = math.sqrt(budget * self.tile**2 / (height * width))
        rows, columns = (math.floor(factor * length / self.tile) for length in (height, width))
        # A side too short for one tile: the proportion is beyond 1 to the budget, and the other side takes the whole
        # budget.
        return (rows, columns) if rows and columns else (1, budget) if columns else (budget, 1)

    def soft_tokens(self, width: int, height: int, budget: int) -> int:
        """Returns the number of an image's tokens without its begin and end token."""
        return math.prod(self.tiles(width, height, budget))

    def __call__(self, width: int, height: int, budget: int) -> int:
        """Returns the number of an image's tokens with its begin and end token."""
        return self.soft_tokens(width, height, budget) + 2
