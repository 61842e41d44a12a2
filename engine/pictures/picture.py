"""A picture as the bytes of its file, and what they show.

PNG, JPEG, WebP and GIF are read, and of an animation its first frame. Everything else is refused by name where it
is known. Size and pixels are bounded before anything is decoded.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.errors import SafelightError, quoted
from engine.files import read_bytes

if TYPE_CHECKING:
    from PIL import Image

BLIND = "this model cannot see images; remove them, or choose a model that can"
MOST_BYTES = 20 * 2**20
MOST_PIXELS = 2**26  # 67 million, 200 MB as RGB; the largest of ordinary phones have 50 million
MOST_SIDE = 32_767
MOST_SCANNED = 2**30  # pixels times scans: a progressive JPEG may pass over the whole picture as often as it likes

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
_COMMENT, _MOST_COMMENTS = b"\x21\xfe", 1024  # of a GIF: the decoder joins them, which takes the square of their number
_EXIF = re.compile(rb"(\xff\xe1..)Exif\0\0", re.DOTALL)
_MPF = re.compile(rb"(\xff\xe2..)MPF\0", re.DOTALL)
"""Where a JPEG's notes begin, and its list of further pictures. Pillow would copy what each of their entries points at,
which may be all of them each time: so it is not shown them. A JPEG's pixels have no such bytes."""

_ORIENTATION, _SHORT = 0x0112, 3  # EXIF's tag, and the type of its value
_UPRIGHT = {  # what turns a picture upright, by its orientation
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_decoding = threading.Lock()  # one at a time: a decoded picture is large, and filters of warnings are the process's


@dataclass(frozen=True)
class Picture:
    """The file of a picture; ``width`` and ``height`` are in pixels, once it is turned upright."""

    digest: str  # SHA-256 of ``data``, 64 hexadecimal digits
    data: bytes = field(repr=False)
    width: int
    height: int


def is_picture(start: bytes) -> bool:
    """Whether a file that begins like this is a picture, of a format that is read here or of another."""
    known = [*_FORMATS, *(sign for sign in _REFUSED if len(sign) > 3)]
    return start.startswith(tuple(known)) or start[8:12] == b"WEBP" or start[4:8] == b"ftyp"


def open_picture(data: bytes, name: str = "") -> Picture:
    """The picture of these bytes; it is decoded once, so that ``pixels`` of it succeeds. ``name`` is for messages.

    Raises:
        SafelightError: it is too large, of a format that is not read, or damaged.
    """
    with _opened(data, name) as image:
        image.load()
        width, height = image.size if _orientation(image) < 5 else image.size[::-1]
    return Picture(hashlib.sha256(data).hexdigest(), data, width, height)


def read_picture(path: Path) -> Picture:
    """The picture of a file.

    Raises:
        SafelightError: it cannot be read, or as ``open_picture``.
    """
    try:
        return open_picture(read_bytes(path, MOST_BYTES), path.name)
    except OSError as error:
        raise SafelightError(f"{path} cannot be read: {error.strerror or error}") from error


def pixels(picture: Picture) -> NDArray[np.uint8]:
    """(height, width, 3), RGB, upright, on white where it is transparent; colour profiles are not applied.

    Raises:
        SafelightError: it is damaged, or of another size than it says, as one from ``open_picture`` cannot be.
    """
    with _opened(picture.data, "") as image:
        found = np.array(_upright(_colours(image), _orientation(image)))
    if found.shape[:2] != (picture.height, picture.width):
        raise SafelightError("the picture has another size than it says; put it in again")
    return found


def thumbnail(picture: Picture, side: int) -> NDArray[np.uint8]:
    """As ``pixels``, smaller where it has more than ``side`` pixels a side. To look at: a model reads ``pixels``."""
    with _opened(picture.data, "") as image:
        image.draft("RGB", (side, side))  # a JPEG is decoded at a half, a quarter or an eighth
        colours = _colours(image)
        colours.thumbnail((side, side), reducing_gap=2.0)
        return np.array(_upright(colours, _orientation(image)))


def data_url(picture: Picture, side: int, *, is_exact: bool = False) -> str:
    """A ``thumbnail`` as a JPEG in a URL, upright and without what a camera noted of place and time.

    ``is_exact``: as a PNG, unless its file is a JPEG.

    Raises:
        SafelightError: it is damaged.
    """
    from PIL import Image  # not before there is a picture

    kind = "PNG" if is_exact and _format_of(picture.data, "the picture") != "JPEG" else "JPEG"
    file = io.BytesIO()
    Image.fromarray(thumbnail(picture, side)).save(file, kind, quality=90)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


@contextmanager
def _opened(data: bytes, name: str) -> Iterator[Image.Image]:
    """An image whose size is within bounds; what its decoder cannot read becomes one error."""
    from PIL import Image  # not before there is a picture

    called = f"the picture {quoted(name)}" if name else "the picture"
    if len(data) > MOST_BYTES:
        raise SafelightError(f"{called} has more than {MOST_BYTES // 2**20} MiB; make it smaller")
    format_name = _format_of(data, called)
    if format_name == "GIF" and data.count(_COMMENT) > _MOST_COMMENTS:
        raise SafelightError(f"{called} has more than {_MOST_COMMENTS:,} comments; save it as PNG")
    scans, notes = 1, None
    if format_name == "JPEG":
        scans, notes = data.count(b"\xff\xda"), _EXIF.search(data)
        data = _MPF.sub(rb"\1mpf\0", _EXIF.sub(rb"\1exif\0\0", data))
    with _decoding, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of size, which is checked here
        try:
            with Image.open(io.BytesIO(data), formats=(format_name,)) as image:
                _check_size(image, called, scans)
                if notes is not None:
                    image.info["exif"] = data[notes.end() : notes.end() + 2**16]
                yield image
        except SafelightError:
            raise
        except Image.DecompressionBombError:
            raise SafelightError(_too_large(called)) from None
        except Exception:  # a decoder may fail in any way on what a stranger made
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
    is_what = f"is {kind}, which is not read here" if kind else "is in no format that is read here"
    raise SafelightError(f"{called} {is_what}; save it as PNG, JPEG or WebP")


def _check_size(image: Image.Image, called: str, scans: int) -> None:
    width, height = image.size
    if not (1 <= width <= MOST_SIDE and 1 <= height <= MOST_SIDE and width * height <= MOST_PIXELS):
        raise SafelightError(_too_large(called))
    if width * height * scans > MOST_SCANNED:
        raise SafelightError(f"{called} would take too long to decode; save it as PNG")


def _too_large(called: str) -> str:
    return (
        f"{called} has no size that is read here (at most {MOST_PIXELS // 10**6} million pixels and {MOST_SIDE:,} "
        "a side); make it smaller"
    )


def _orientation(image: Image.Image) -> int:
    """EXIF's of a picture that is loaded, 1 to 8; 1 where it says none. Pillow would read all other notes, too."""
    found = image.info.get("exif")
    notes = found.removeprefix(b"Exif\0\0") if isinstance(found, bytes) else b""
    order = {b"II": "<", b"MM": ">"}.get(notes[:2])
    try:
        if order is not None:
            (start,) = struct.unpack_from(f"{order}L", notes, 4)
            (count,) = struct.unpack_from(f"{order}H", notes, start)
            for place in range(start + 2, start + 2 + 12 * count, 12):
                tag, kind, _, turn = struct.unpack_from(f"{order}HHLH", notes, place)
                if tag == _ORIENTATION:
                    return turn if kind == _SHORT and turn in _UPRIGHT else 1
    except struct.error:  # a camera's notes that cannot be read are no reason to refuse what it saw
        pass
    return 1


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    from PIL import Image  # not before there is a picture

    turn = _UPRIGHT.get(orientation)
    return image if turn is None else image.transpose(Image.Transpose[turn])


def _colours(image: Image.Image) -> Image.Image:
    """The first frame as RGB."""
    from PIL import Image  # not before there is a picture

    image.load()
    if image.mode.startswith("I"):  # grey in 16 bits, of which the upper eight count, as they do in colour
        deep, clear = np.asarray(image), image.info.get("transparency")
        image = Image.fromarray(np.where(deep == clear, 255, deep >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
