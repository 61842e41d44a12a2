"""Writes a run as an MP4 (H.264, which every player supports), with frames piped to ffmpeg. Knows no canvas."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import IO

from PySide6.QtGui import QImage

from app.export.pictures import measured
from app.export.run import Options, Share, in_thread, missing
from engine import Recording, SafelightError
from engine.files import replacing

END_SECONDS = 1.0  # for which the last frame is repeated, since players turn black at the end
MISSING = "ffmpeg is missing, which MP4 needs. Install Safelight's imageio-ffmpeg again, or export a GIF"


def write(run: Recording, path: Path, options: Options) -> Share:
    """Writes the frames; yields the share done.

    Raises:
        SafelightError: ffmpeg is missing or fails, there is nothing to be drawn, or the file cannot be written.
    """
    program = yield from in_thread(ffmpeg, 0.0)  # runs the program as a test, which takes a third of a second
    sheet = yield from measured(run, options, 0.1)
    repeats = max(0, math.ceil(END_SECONDS * options.fps) - 1)
    shown = [*sheet.places, *sheet.places[-1:] * repeats]
    with replacing(path) as unfinished, tempfile.TemporaryFile() as complaints:
        encoder = _start(_command(program, sheet.size, options.fps, unfinished), complaints)
        try:
            for number, place in enumerate(shown, start=1):
                picture = pixels(sheet.image(place))
                yield from in_thread(partial(_feed, encoder, picture), 0.1 + 0.85 * (number - 1) / len(shown))
            yield from in_thread(partial(_end, encoder), 0.95)
        finally:
            if encoder.poll() is None:
                encoder.kill()
            _end(encoder)
        if encoder.returncode != 0:
            complaints.seek(0)
            raise _failure(complaints.read(), path)
    yield 1.0
    return missing(sheet.replay)


def _feed(encoder: subprocess.Popen[bytes], picture: bytes) -> None:
    assert encoder.stdin is not None
    with contextlib.suppress(OSError):  # ffmpeg has failed; its own message says why
        encoder.stdin.write(picture)


def _end(encoder: subprocess.Popen[bytes]) -> None:
    """Ends the pipe, and waits for ffmpeg to end."""
    assert encoder.stdin is not None
    with contextlib.suppress(OSError):
        encoder.stdin.close()
    encoder.wait()


def _start(command: list[str], complaints: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError:
        raise SafelightError(MISSING) from None


def ffmpeg() -> str:
    """Returns the path of ffmpeg. Raises SafelightError if it is missing."""
    try:
        import imageio_ffmpeg  # may be missing

        return str(imageio_ffmpeg.get_ffmpeg_exe())  # type: ignore[attr-defined, no-untyped-call]
    except (ImportError, RuntimeError, OSError):
        raise SafelightError(MISSING) from None


def _command(program: str, size: tuple[int, int], fps: float, path: Path) -> list[str]:
    width, height = size
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-framerate", f"{fps:g}", "-i", "pipe:0"]
    threads = str(max(1, (os.cpu_count() or 2) - 1))  # leaves one core for the window
    encoding = ["-an", "-c:v", "libx264", "-threads", threads, "-preset", "veryfast", "-crf", "18"]
    plain = ["-pix_fmt", "yuv420p", "-map_metadata", "-1", "-movflags", "+faststart", "-f", "mp4"]
    # ``-f``, since the file has no suffix; ``file:``, since a name with a colon would be taken for a protocol.
    return [program, "-y", "-loglevel", "error", *raw, *encoding, *plain, f"file:{path}"]


def _failure(complaints: bytes, path: Path) -> SafelightError:
    said = complaints.decode(errors="replace")
    if "No space left" in said:
        return SafelightError(f"the disk is full, so {path} was not written. Free some space, then try again")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    why = lines[-1][:160] if lines else "it does not say why"
    return SafelightError(f"ffmpeg could not write {path.name} ({why}). Choose another place or export a GIF")


def pixels(picture: QImage) -> bytes:
    """Returns the red, green and blue bytes of a picture, row by row without padding."""
    plain = picture.convertToFormat(QImage.Format.Format_RGB888)
    row, width = plain.bytesPerLine(), 3 * plain.width()
    data = bytes(plain.constBits())
    if row == width:
        return data[: width * plain.height()]
    return b"".join(data[place : place + width] for place in range(0, row * plain.height(), row))
