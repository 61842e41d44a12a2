"""Pictures, damaged and misshapen: what is taken has pixels of the size it says."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from random import Random

from PIL import Image

from engine.pictures import open_picture, pixels
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

FORMATS = (("PNG", ("1", "L", "P", "LA", "RGB", "RGBA", "I;16")), ("JPEG", ("L", "RGB", "CMYK")))
FORMATS += (("GIF", ("L", "P")), ("WEBP", ("RGB", "RGBA")))
SIZES = ((1, 1), (1, 5_000), (64, 48), (16_000, 2), (9_000, 9_000))
OTHERS = (b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7", b"II*\x00", b"", b"GIF89a", b"\xff\xd8\xff")


def _notes(random: Random) -> bytes:
    """EXIF whose entries point at much of it."""
    size, count = random.randrange(1_000, 65_000), random.randrange(2_000)
    entries = (struct.pack("<HHLL", tag, random.randrange(14), random.randrange(size), 8) for tag in range(count))
    return (b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", count) + b"".join(entries)).ljust(size)[:65_000]


def _flooded(random: Random, data: bytes, format_name: str) -> bytes:
    """A file with parts that its pixels do not need: one that is long, or very many."""
    size = random.choice((10**3, 10**5, 4 * 10**6))
    match format_name:
        case "PNG":
            profile = b"a\0\0" + zlib.compress(bytes(2**20), 9)
            chunks = ((b"IDAT", b""), (b"iCCP", profile), (b"tEXt", b"exif\0x"), (b"tRNS", bytes(6)), (b"abCd", b""))
            name, inner = random.choice(chunks)
            part = struct.pack(">I", len(inner)) + name + inner + struct.pack(">I", zlib.crc32(name + inner))
            at = 33
        case "JPEG":
            part = random.choice(
                (b"\xff\xe5\0\2", b"\xff\xe1\0\x08Exif\0\0", b"\xff\xdd\0\4\0\0", b"\xff", b"\xff\xd0")
            )
            at = random.choice((2, len(data) - 2))
        case "GIF":
            long = b"\x21\xfe" + (b"\xff" + bytes(255)) * (size // 256) + b"\0"
            part = random.choice((b"\x21\xfe\1x\0", b"\x21\1\0", b"\x21\xf9\4\1\0\0\0\0", b"\0", long))
            at = 13 + (3 << (data[10] & 7) + 1 if data[10] & 128 else 0)
        case _:
            part, at = random.choice((b"abcd\0\0\0\0", b"EXIF\2\0\0\0II")), random.choice((12, len(data)))
    return data[:at] + part * max(1, size // len(part)) + data[at:]


def _large(random: Random) -> bytes:
    """A WebP of 28 bytes that says to have many pixels."""
    bits = 0x2F | random.randrange(2**14) << 8 | random.randrange(2**14) << 22
    bits |= sum(1 << 43 + 4 * code for code in range(5))
    return b"RIFF\x14\0\0\0WEBPVP8L\x08\0\0\0" + bits.to_bytes(8, "little")


def _make(random: Random, _folder: Path) -> Attempt:
    format_name, modes = random.choice(FORMATS)
    image = Image.new(random.choice(modes), random.choice(SIZES if format_name == "GIF" else SIZES[:4]))
    if image.mode not in ("1", "I;16") and image.width < 100:
        image = image.copy()
        image.frombytes(random.randbytes(len(image.tobytes())))
    exif = Image.Exif()
    exif[0x0112] = random.randrange(10)
    file = io.BytesIO()
    more = [image.copy()] if random.random() < 0.3 and format_name != "JPEG" and image.width < 100 else []
    notes = exif.tobytes() if random.random() < 0.8 else _notes(random)
    image.save(file, format_name, exif=notes, **({"save_all": True, "append_images": more} if more else {}))
    data = file.getvalue()
    if random.random() < 0.3:
        data = _flooded(random, data, format_name)
    data = random.choice((*OTHERS, _large(random), *[data] * 20))
    if random.random() < 0.7:
        data = mutate.damaged(random, data)

    def attempt() -> None:
        picture = open_picture(data, random.choice(mutate.NAMES))
        assert pixels(picture).shape == (picture.height, picture.width, 3)

    return attempt


KINDS = (Kind("pictures", _make),)
