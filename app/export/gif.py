"""Writes a run as an animated GIF, frame by frame, from finished pictures. Knows no canvas.

All frames share one palette of the theme's colours and shades between them and the background, so that thin letters
keep their colour. Of each frame only the rectangle that differs from the frame before is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image, ImageChops
from PIL.GifImagePlugin import getdata, getheader
from PySide6.QtGui import QColor, QImage

from app.board.paint import given_ground
from app.design.tokens import Theme, mixed
from app.export.pictures import measured
from app.export.run import Options, Share, missing
from engine import Recording
from engine.files import replacing

END_SECONDS = 2.0  # shortest time of the last frame before the animation repeats
COLORS = 256
Rgb = tuple[int, int, int]


def write(run: Recording, path: Path, options: Options) -> Share:
    """Writes the frames; yields the share done.

    Raises:
        SafelightError: there is nothing to be drawn, or the file cannot be written.
    """
    sheet = yield from measured(run, options, 0.1)
    places = sheet.places
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        pictures = (sheet.image(place) for place in places)
        colors = palette(sheet.style.theme, board=sheet.has_boards)
        for number in _frames(file, pictures, len(places), options, colors):
            yield 0.1 + 0.9 * number / len(places)
    return missing(sheet.replay)


def _frames(
    file: BinaryIO, pictures: Iterator[QImage], total: int, options: Options, colors: list[Rgb]
) -> Iterator[float]:
    source = Image.new("P", (16, 16))
    source.putpalette([channel for shade in colors for channel in shade])
    before: Image.Image | None = None
    each = max(2, round(100 / options.fps)) * 10  # milliseconds; GIF counts in hundredths of a second
    for number, picture in enumerate(pictures, start=1):
        frame = as_pillow(picture).quantize(palette=source, dither=Image.Dither.NONE)
        last = max(each, round(1000 * END_SECONDS)) if number == total else each
        if before is None:
            for part in list[Any](getheader(frame, info={"loop": 0, "duration": last})[0]):
                file.write(part)
            box = (0, 0, *frame.size)
        else:
            box = ImageChops.difference(_numbers(frame), _numbers(before)).getbbox() or (0, 0, 1, 1)
            yield number - 0.5
        for part in getdata(frame.crop(box), offset=box[:2], duration=last, disposal=1):
            file.write(part)
        before = frame
        yield number
    file.write(b";")


def _numbers(frame: Image.Image) -> Image.Image:
    """Returns a frame's palette indices as a grey image, which ``ImageChops`` can compare."""
    return Image.frombytes("L", frame.size, frame.tobytes())


def palette(theme: Theme, *, board: bool) -> list[Rgb]:
    """Returns 256 colours for pictures of canvases, or of boards."""
    ground = QColor(theme.surface_sunken)
    quiet = [theme.faint_ink, theme.ink, theme.line, theme.line_strong]
    quiet += [theme.conflict, theme.accent] if board else []
    states = [theme.noise, theme.candidate, theme.accepted, theme.taken_back, theme.settled, theme.given, theme.padding]
    shades = [ground]
    if board:
        shades += [mixed(ground, QColor(name), part / 15) for name in (*quiet, *states) for part in range(1, 16)]
        given = given_ground(theme)
        inks = (theme.given, theme.conflict, theme.line_strong, theme.taken_back)
        shades += [mixed(given, QColor(name), part / 7) for name in inks for part in range(8)]
    else:
        shades += [mixed(ground, QColor(name), part / 20) for name in (*quiet, *states) for part in range(1, 21)]
    distinct = list(dict.fromkeys((shade.red(), shade.green(), shade.blue()) for shade in shades))[:COLORS]
    return distinct + [distinct[0]] * (COLORS - len(distinct))


def as_pillow(picture: QImage) -> Image.Image:
    plain = picture.convertToFormat(QImage.Format.Format_RGBX8888)
    size = (plain.width(), plain.height())
    return Image.frombytes("RGB", size, bytes(plain.constBits()), "raw", "RGBX", plain.bytesPerLine())
