"""One call for every format. Imports what a format needs only when it is asked for."""

from __future__ import annotations

from pathlib import Path

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
    match options.format:
        case "json":
            from app.export import json

            return (yield from json.write(run, path, prompt=options.prompt))
        case "html":
            from app.export import html

            return (yield from html.write(run, path, prompt=options.prompt))
        case "gif":
            from app.export import gif

            return (yield from gif.write(run, path, options))
        case "mp4":
            from app.export import video

            return (yield from video.write(run, path, options))
        case "png" | "strip":
            from app.export import pictures

            return (yield from pictures.write_png(run, path, options))
