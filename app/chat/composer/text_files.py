"""Reads text files to attach to a prompt, and explains why a file cannot be attached. Knows no Qt."""

from __future__ import annotations

import codecs
import os
import re
import stat
from pathlib import Path

from app.state.chat.attachment import Attachment
from app.system.i18n import tr
from engine import SafelightError

LIMIT = 2_000_000  # bytes
MOST_CONTROLS = 0.02
"""Largest share of control characters in bytes that still count as text."""

# UTF-32 (LE) begins like UTF-16, so it is checked first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = re.compile(r"[^\t\n\r\f\v\b\x1b -~\xa0-\U0010ffff]")  # except those usual in texts and terminal logs


def size_in_words(size: int) -> str:
    """Returns a number of bytes with its unit, in steps of 1000."""
    if size < 1000:
        return f"{size} B"
    for unit in ("KB", "MB", "GB"):
        size_in_unit = size / 1000 ** (1 + ("KB", "MB", "GB").index(unit))
        if size_in_unit < 999.95 or unit == "GB":
            break
    return f"{size_in_unit:,.1f}".removesuffix(".0") + f" {unit}"


def read_text_file(path: str | Path) -> Attachment:
    """Returns a file as text, with line feeds as line ends.

    Raises:
        SafelightError: it is a folder, too large, empty, not text, or cannot be read, in one sentence.
    """
    path = Path(path)
    name = "".join(char if char.isprintable() else " " for char in path.name).strip() or tr("unnamed file")
    try:
        kind = os.stat(path)
        if stat.S_ISDIR(kind.st_mode):
            raise SafelightError(tr("{name} is a folder; attach the files in it.", name=name))
        if not stat.S_ISREG(kind.st_mode):  # reading a pipe could block forever
            raise SafelightError(tr("{name} is not a file.", name=name))
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SafelightError(tr("{name} cannot be read: {reason}.", name=name, reason=reason.lower())) from error
    return _as_text(name, data, max(kind.st_size, len(data)))


def text_as_file(name: str, text: str) -> Attachment:
    """Returns a text as an attachment of this name. Raises SafelightError as ``read_text_file`` does."""
    data = text.encode("utf-8", "replace")
    return _as_text(name, data, len(data))


def _as_text(name: str, data: bytes, size: int) -> Attachment:
    if len(data) > LIMIT:
        raise SafelightError(
            tr(
                "{name} has {size}; files of up to {limit} can be attached.",
                name=name,
                size=size_in_words(size),
                limit=size_in_words(LIMIT),
            )
        )
    text = decode(data)
    if text is None:
        raise SafelightError(tr("{name} is not a text file; attach text, Markdown, code or CSV.", name=name))
    if not text.strip():
        raise SafelightError(tr("{name} is empty; there is nothing to attach.", name=name))
    return Attachment(name, text)


def decode(data: bytes) -> str | None:
    """Decodes a file's bytes to text with line feeds as line ends. Returns None if they are not text.

    A byte order mark decides the encoding; else UTF-8, Windows-1252 and Latin-1 are tried in this order.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                return None
            break
    else:
        if b"\0" in data:
            return None
        text = _without_mark(data)
    controls = len(_CONTROLS.findall(text))
    if "\0" in text or controls > MOST_CONTROLS * len(text):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _without_mark(data: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1")
