"""Exports a run in any format."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from app.export import FORMATS
from app.export.options import Options
from app.export.run import Share
from engine import Recording


def export(run: Recording, path: Path, options: Options | None = None) -> Share:
    """Writes a run to a file; yields the share done, 0 to 1. Closing the generator early leaves no file behind.

    Returns a sentence about what is missing in the file, as of a block that is too long or damaged; empty if nothing.

    A file of that name is replaced once everything is written. Pictures need a ``QGuiApplication``.

    Raises:
        SafelightError: there is nothing to export, a chosen frame does not exist, ffmpeg is missing, the disk is full
            or the file cannot be written. An existing file then stays unchanged.
    """
    options = options or Options()
    writer = import_module(f"app.export.{FORMATS[options.format].module}")
    missing: str = yield from writer.write(run, path, options)
    return missing
