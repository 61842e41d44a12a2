"""Pictures from outside: what is taken comes out upright, in RGB and on white; what is not is refused in words."""

from __future__ import annotations

import hashlib
import io
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from engine import SafelightError
from engine.pictures import MOST_BYTES, open_picture, pixels, thumbnail

rng = np.random.default_rng(0)
DRAWN = Image.fromarray(rng.integers(0, 256, (2, 3, 3), dtype=np.uint8))  # 3 pixels wide, 2 high


def written(image: Image.Image, format_name: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def shown(image: Image.Image, format_name: str = "PNG", **options: Any) -> Any:
    return pixels(open_picture(written(image, format_name, **options)))


def png(width: int, height: int) -> bytes:
    """A picture of any size whose file has no pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (head, b"IDAT" + zlib.compress(b"\0" * 100), b"IEND")
    packed = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def test_a_picture_is_named_by_its_content() -> None:
    data = written(DRAWN)
    picture = open_picture(data, "a.png")
    assert (picture.data, picture.width, picture.height) == (data, 3, 2)
    assert picture.digest == hashlib.sha256(data).hexdigest()
    assert np.array_equal(pixels(picture), np.asarray(DRAWN))


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_a_turned_photograph_stands_upright(turn: int, format_name: str) -> None:
    exif = Image.Exif()
    exif.endian = "<" if turn % 2 else ">"
    exif[0x010F], exif[0x0112] = "a maker", turn
    data = written(DRAWN, format_name, exif=exif)
    picture = open_picture(data)
    with Image.open(io.BytesIO(data)) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    assert (picture.height, picture.width) == expected.shape[:2]
    assert np.array_equal(pixels(picture), expected)
    assert thumbnail(picture, 9).shape == expected.shape


def test_what_is_not_rgb_becomes_rgb() -> None:
    deep = Image.fromarray(np.array([[0, 255, 256, 65535]], dtype=np.uint16))
    assert shown(deep).tolist() == [[[0] * 3, [0] * 3, [1] * 3, [255] * 3]]
    assert shown(deep, transparency=256).tolist() == [[[0] * 3, [0] * 3, [255] * 3, [255] * 3]]
    half = Image.new("RGBA", (1, 1), (255, 0, 0, 0))
    half.putpixel((0, 0), (0, 0, 0, 128))
    assert shown(half).tolist() == [[[127] * 3]]
    clear = Image.new("P", (1, 1))
    assert shown(clear, transparency=0).tolist() == [[[255] * 3]]
    red = shown(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG")
    assert red[0, 0].tolist() == pytest.approx([254, 0, 0], abs=3)
    assert shown(Image.new("1", (1, 1), 1)).tolist() == [[[255] * 3]]


@pytest.mark.parametrize("format_name", ["GIF", "WEBP", "PNG"])
def test_an_animation_is_its_first_frame(format_name: str) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("white", "black", "red")]
    options = {"lossless": True} if format_name == "WEBP" else {}
    found = shown(frames[0], format_name, save_all=True, append_images=frames[1:], **options)
    assert found.shape == (4, 4, 3)
    assert found.min() == 255


def test_extreme_shapes() -> None:
    assert shown(Image.new("RGB", (1, 1))).shape == (1, 1, 3)
    assert shown(Image.new("L", (20_000, 1))).shape == (1, 20_000, 3)


GIF = written(Image.new("P", (1, 1)), "GIF")
JPEG = written(Image.new("L", (2_000, 2_000)), "JPEG")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (png(20_000, 20_000), "no size that is read here"),
        (png(2**31 - 1, 1), "no size that is read here"),
        (png(10_000, 8_000), "no size that is read here"),  # of which Pillow itself would only warn
        (png(500, 500), "damaged"),
        (JPEG[: len(JPEG) // 2], "damaged"),
        (JPEG + b"\xff\xda" * 300, "too long to decode"),
        (GIF[:-10] + b"\x21\xfe\x00" * 2_000 + GIF[-10:], "comments"),
        (b"\xff\xd8\xff" + bytes(MOST_BYTES), "more than 20 MiB"),
        (b"\x89PNG\r\n\x1a\n", "damaged"),
        (b"", "no format"),
        (b'<?xml version="1.0"?><SVG/>', "an SVG"),
        (b"%PDF-1.7", "a PDF"),
        (written(DRAWN, "TIFF"), "a TIFF"),
        (written(DRAWN, "BMP"), "a BMP"),
        (written(DRAWN, "PPM"), "no format"),
        (b"\0\0\0\x1cftypheic", "HEIF"),
    ],
)
def test_what_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(SafelightError, match=why) as error:
        open_picture(data, "x\n.png")
    assert r"'x\n.png'" in str(error.value)


def test_notes_that_cannot_be_read_refuse_nothing() -> None:
    assert shown(DRAWN, exif=b"Exif\0\0II*\0\xff\xff\xff\xff").shape == (2, 3, 3)
    named = PngInfo()
    named.add_itxt("exif", "no notes")
    assert shown(DRAWN, pnginfo=named).shape == (2, 3, 3)


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "a text of a PNG", "further pictures"])
def test_notes_take_no_more_memory_than_they_have(format_name: str) -> None:
    """Each of a thousand entries points at all of them."""
    size = 60_000
    entries = b"".join(struct.pack("<HHLL", 0x1000 + tag, 1, size - 8, 8) for tag in range(1_000))
    notes = (b"II*\0\x08\0\0\0" + struct.pack("<H", 1_000) + entries).ljust(size, b"\0")
    match format_name:
        case "a text of a PNG":
            named = PngInfo()
            named.add_text("Raw profile type exif", f"\nexif\n{size}\n{notes.hex()}", zip=True)
            data = written(DRAWN, pnginfo=named)
        case "further pictures":
            data = written(DRAWN, "JPEG")
            data = data[:2] + b"\xff\xe2" + struct.pack(">H", size + 6) + b"MPF\0" + notes + data[2:]
        case _:
            data = written(DRAWN, format_name, exif=b"Exif\0\0" + notes)
    tracemalloc.start()
    try:
        assert open_picture(data).width == 3
        assert tracemalloc.get_traced_memory()[1] < 40 * size
    finally:
        tracemalloc.stop()
