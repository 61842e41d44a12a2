"""Reads pictures for a prompt from files and from the clipboard. Knows no widget."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QImage, QImageWriter

from app.system.i18n import tr
from engine import SafelightError
from engine.files import open_regular, read_bytes
from engine.pictures import MOST_BYTES, Picture, is_picture, open_picture

HEAD_BYTES = 16

Pasted = str | QImage
"""A file's path, or an image from the clipboard."""


def is_picture_file(path: str) -> bool:
    """Returns True if a file begins like a picture; False if it cannot be read."""
    try:
        with open_regular(Path(path)) as file:
            return is_picture(file.read(HEAD_BYTES))
    except (SafelightError, OSError):
        return False


def read_picture(source: Pasted) -> tuple[str, Picture]:
    """Returns the name of a picture's file (empty for the clipboard) and the picture.

    Raises:
        SafelightError: it cannot be read, is too large or damaged, in one sentence.
    """
    if isinstance(source, QImage):
        buffer = QBuffer()
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        if not QImageWriter(buffer, QByteArray(b"png")).write(source):
            raise SafelightError(tr("This picture cannot be read. Save it as a PNG file, and drop that."))
        return "", open_picture(bytes(buffer.data().data()))
    path = Path(source)
    name = "".join(char if char.isprintable() else " " for char in path.name).strip()
    try:
        return name, open_picture(read_bytes(path, MOST_BYTES), name)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SafelightError(tr("{name} cannot be read: {reason}.", name=name, reason=reason.lower())) from error
