"""Pictures from outside: what is taken comes out upright, in RGB and on white; what is not is refused in words."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from engine import SafelightError
from engine.pictures import MAX_BYTES, open_picture, pixels, thumbnail
from engine.pictures.container import MAX_PARTS, content
from engine.pictures.picture import MAX_MEMORY

rng = np.random.default_rng(0)
DRAWN = Image.fromarray(rng.integers(0, 256, (2, 3, 3), dtype=np.uint8))  # 3 pixels wide, 2 high


def written(image: Image.Image, format_name: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def shown(image: Image.Image, format_name: str = "PNG", **options: Any) -> Any:
    return pixels(open_picture(written(image, format_name, **options)))


def chunk(name: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int) -> bytes:
    """A picture of any size whose file has no pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(b"\0" * 100)), chunk(b"IEND"))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_a_picture_is_named_by_its_content() -> None:
    data = written(DRAWN)
    picture = open_picture(data, "a.png")
    assert (picture.data, picture.width, picture.height) == (data, 3, 2)
    assert picture.digest == hashlib.sha256(data).hexdigest()
    assert np.array_equal(pixels(picture), np.asarray(DRAWN))


@pytest.mark.parametrize(
    ("turn", "format_name"),
    [*((turn, "JPEG") for turn in range(1, 9)), (6, "PNG"), (3, "PNG"), (6, "WEBP"), (3, "WEBP")],
)
def test_a_turned_photograph_is_upright(turn: int, format_name: str) -> None:
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


def test_shapes_may_be_extreme() -> None:
    assert shown(Image.new("RGB", (1, 1))).shape == (1, 1, 3)
    assert shown(Image.new("L", (20_000, 1))).shape == (1, 20_000, 3)


def webp(width: int, height: int) -> bytes:
    """A picture of one colour in 28 bytes, of any size."""
    colours = sum(1 << 43 + 4 * code for code in range(5))  # five codes of one symbol each
    bits = 0x2F | (width - 1) << 8 | (height - 1) << 22 | colours
    body = b"VP8L" + struct.pack("<I", 8) + bits.to_bytes(8, "little")
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def bounded(image: Image.Image, format_name: str, **options: Any) -> bytes:
    """A picture's file that says to be of 7 000 by 7 000 pixels."""
    data, (width, height) = written(image, format_name, **options), image.size
    return data.replace(struct.pack(">HH", height, width), struct.pack(">HH", 7_000, 7_000), 1)


WEBP = webp(1, 1)
GIF = written(Image.new("P", (1, 1)), "GIF")
PNG = written(DRAWN)
RED = Image.new("RGB", (40, 50), "red")
JPEG = written(Image.new("L", (2_000, 2_000)), "JPEG")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (png(20_000, 20_000), "no size that is read here"),
        (png(2**31 - 1, 1), "no size that is read here"),
        (png(10_000, 8_000), "no size that is read here"),  # of which Pillow itself would only warn
        (png(500, 500), "damaged"),
        (JPEG[: len(JPEG) // 2], "damaged"),
        (JPEG[:-2] + JPEG[JPEG.rindex(b"\xff\xda") : -2] * 300 + JPEG[-2:], "too long to decode"),
        (webp(16_383, 4_096), "no size that is read here"),
        (bounded(RED, "JPEG", progressive=True, subsampling=0), "at most 46 million pixels of such a file"),
        (b"\xff\xd8\xff" + bytes(MAX_BYTES), "more than 20 MiB"),
        (JPEG[:2] + b"\xff\xfe\0\2" * MAX_PARTS + JPEG[2:], "damaged"),
        (GIF[:19] + b"\0" * MAX_PARTS + GIF[19:], "damaged"),
        (b"\x89PNG\r\n\x1a\n", "damaged"),
        (b"", "unsupported format"),
        (b'<?xml version="1.0"?><SVG/>', "an SVG"),
        (b"%PDF-1.7", "a PDF"),
        (written(DRAWN, "TIFF"), "a TIFF"),
        (written(DRAWN, "BMP"), "a BMP"),
        (written(DRAWN, "PPM"), "unsupported format"),
        (b"\0\0\0\x1cftypheic", "HEIF"),
    ],
)
def test_other_data_are_refused_in_words(data: bytes, why: str) -> None:
    with pytest.raises(SafelightError, match=why) as error:
        open_picture(data, "x\n.png")
    assert r"'x\n.png'" in str(error.value)


FRAME = JPEG.index(b"\xff\xdb")
ANIMATED = written(Image.new("P", (1, 1)), "GIF", save_all=True, append_images=[Image.new("P", (1, 1), 1)] * 9)
PROFILE = chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(2**20), 9))


@pytest.mark.parametrize(
    ("plain", "full"),
    [
        pytest.param(GIF, GIF[:-18] + b"\x21\xfe" + (b"\xff" + bytes(255)) * 9_000 + b"\0" + GIF[-18:], id="comment"),
        pytest.param(GIF, GIF[:-18] + b"\x21\xff\1x\0" * 9_000 + GIF[-18:], id="extensions"),
        pytest.param(GIF, ANIMATED + GIF[-18:-1] * 9_000, id="frames"),
        pytest.param(JPEG, JPEG[:FRAME] + b"\xff\xe5\0\2" * 9_000 + JPEG[FRAME:], id="APP5"),
        pytest.param(JPEG, JPEG[:FRAME] + b"\xff" * 90_000 + JPEG[FRAME:], id="filling"),
        pytest.param(JPEG, JPEG + b"\xff\xe5\0\2" * 9_000, id="after the end"),
        pytest.param(PNG, PNG[:33] + PROFILE * 90 + PNG[33:], id="profiles"),
        pytest.param(PNG, PNG[:-12] + PROFILE * 90 + PNG[-12:], id="profiles after the pixels"),
        pytest.param(PNG, PNG[:33] + chunk(b"IDAT") * 9_000 + PNG[33:], id="empty chunks"),
        pytest.param(WEBP, WEBP + b"abcd\0\0\0\0" * 9_000, id="chunks"),
    ],
)
def test_a_decoder_is_handed_no_more_than_the_pixels(
    plain: bytes, full: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else costs it more than its length: a comment of 4 MB its square, a profile a thousand times its bytes."""
    expected = pixels(open_picture(plain))
    handed: list[bytes] = []
    opening = Image.open

    def handing(file: io.BytesIO, formats: tuple[str, ...]) -> Image.Image:
        handed.append(file.getvalue())
        return opening(file, formats=formats)

    monkeypatch.setattr(Image, "open", handing)
    assert len(full) > len(plain) + 30_000
    assert np.array_equal(pixels(open_picture(full)), expected)
    assert max(len(data) for data in handed) <= len(plain)


MEMORY = """
import gc, pathlib, sys
from PIL import GifImagePlugin, Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
from engine.pictures import open_picture, pixels, thumbnail

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

before = memory("VmRSS")
for path in sys.argv[1:]:
    data, peaks = pathlib.Path(path).read_bytes(), []
    for look in (lambda: open_picture(data), lambda: pixels(picture), lambda: thumbnail(picture, 64)):
        gc.collect()
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        found = look()
        peaks.append(memory("VmHWM") - before)
        picture = found if len(peaks) == 1 else picture
        del found
    print(max(peaks))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from the Linux kernel")
def test_decoding_takes_the_memory_that_is_foreseen(tmp_path: Path) -> None:
    assert MAX_MEMORY + MAX_BYTES < 500e6
    side = 1024
    colour, clear = Image.new("RGB", (side, side), "red"), Image.new("RGBA", (side, side), (9, 9, 9, 9))
    drawn = (
        (clear, "PNG", {"compress_level": 1}),
        (Image.new("LA", clear.size), "PNG", {"compress_level": 1}),
        (Image.fromarray(np.zeros(clear.size, np.uint16)), "PNG", {"transparency": 1, "compress_level": 1}),
        (Image.new("P", clear.size), "PNG", {"transparency": b"\1\2", "compress_level": 1}),
        (Image.new("P", clear.size), "GIF", {"transparency": 0, "disposal": 2}),
        (colour, "JPEG", {}),
        (colour, "JPEG", {"progressive": True, "subsampling": 0}),
        (colour, "JPEG", {"progressive": True, "subsampling": 2}),
        (colour.convert("CMYK"), "JPEG", {"progressive": True}),
        (clear, "WEBP", {"lossless": True, "quality": 0, "method": 0}),
        (clear, "WEBP", {"quality": 10, "method": 0}),
    )
    files = [tmp_path / f"{place}" for place in range(len(drawn))]
    for file, (image, format_name, options) in zip(files, drawn, strict=True):
        file.write_bytes(written(image, format_name, **options))
    # What is freed goes back at once, so that one picture's peak has nothing of the one before.
    own = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", MEMORY, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **own})
    for file, (_, name, _), peak in zip(files, drawn, map(int, done.stdout.split()), strict=True):
        foreseen = content(file.read_bytes(), name).bytes_per_pixel * side**2
        assert foreseen / 2 < peak < foreseen + 8 * 2**20, (name, peak, foreseen)  # and the bands


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
