"""One call for every format."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from app.export import FORMATS
from app.export.options import Options
from app.export.run import Share
from engine import Recording


def export(run: Recording, path: Path, options: Options | None = None) -> Share:
    """Write a run to a file; yields the share done, 0 to 1. Closing the generator early leaves nothing behind.

    Returns what is not in the file though it was asked for, in a sentence: a block may be too long, or be damaged.

    A file of that name is replaced once all is written. Pictures need a ``QGuiApplication``.

    Raises:
        SafelightError: there is nothing to export, a frame is named that is not there, ffmpeg is missing, the disk is
            full or the file cannot be written. What was there before stands.
    """
    options = options or Options()
    writer = import_module(f"app.export.{FORMATS[options.format].module}")
    missing: str = yield from writer.write(run, path, options)
    return missing
