"""Pictures, damaged and misshapen: what is taken has pixels of the size it says."""

from __future__ import annotations

import io
import struct
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
    data = random.choice((*OTHERS, *[file.getvalue()] * 20))
    if random.random() < 0.7:
        data = mutate.damaged(random, data)

    def attempt() -> None:
        picture = open_picture(data, random.choice(mutate.NAMES))
        assert pixels(picture).shape == (picture.height, picture.width, 3)

    return attempt


KINDS = (Kind("pictures", _make),)
