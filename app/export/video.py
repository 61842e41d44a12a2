"""Writes a run as an MP4 (H.264, which every player supports) with FFmpeg's libraries. Knows no canvas."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from PySide6.QtGui import QImage

from app.export.pictures import measured
from app.export.run import Options, Share, in_thread, missing
from engine import Recording, SafelightError
from engine.files import replacing

END_SECONDS = 1.0  # for which the last frame is repeated, since players turn black at the end


def write(run: Recording, path: Path, options: Options) -> Share:
    """Writes the frames; yields the share done.

    Raises:
        SafelightError: there is nothing to be drawn, or the file cannot be written.
    """
    import av  # twenty libraries, for this export alone

    sheet = yield from measured(run, options, 0.1)
    repeats = max(0, math.ceil(END_SECONDS * options.fps) - 1)
    shown = [*sheet.places, *sheet.places[-1:] * repeats]
    plain = {"movflags": "+faststart", "fflags": "+bitexact"}  # nothing about who made it
    with replacing(path) as unfinished, _explained(path), av.open(unfinished, "w", format="mp4", options=plain) as film:
        rate = Fraction(options.fps).limit_denominator(1000)
        stream = film.add_stream("libx264", rate, options={"preset": "veryfast", "crf": "18"})
        (stream.width, stream.height), stream.pix_fmt = sheet.size, "yuv420p"
        stream.thread_count = max(1, (os.cpu_count() or 2) - 1)  # leaves one core for the window
        for number, place in enumerate(shown, start=1):
            frame = av.VideoFrame.from_ndarray(pixels(sheet.image(place)), format="rgb24")
            done = 0.1 + 0.85 * (number - 1) / len(shown)
            film.mux((yield from in_thread(partial(stream.encode, frame), done)))
        film.mux((yield from in_thread(stream.encode, 0.95)))
    yield 1.0
    return missing(sheet.replay)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # FFmpeg's errors are of this kind, too
        if error.errno == errno.ENOSPC:
            raise SafelightError(
                f"the disk is full, so {path} was not written. Free some space, then try again"
            ) from error
        why = error.strerror or type(error).__name__
        raise SafelightError(
            f"{path.name} could not be written ({why}). Choose another place or export a GIF"
        ) from error


def pixels(picture: QImage) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """Returns the red, green and blue of a picture's pixels, shape (height, width, 3)."""
    plain = picture.convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(plain.constBits(), np.uint8).reshape(plain.height(), plain.bytesPerLine())
    shape = plain.height(), plain.width(), 3
    return rows[:, : 3 * plain.width()].reshape(shape).copy()  # the picture's own memory goes with it
