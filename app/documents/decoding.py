"""Bytes of a file as text, in whatever encoding. Imports nothing of ours."""

from __future__ import annotations

import codecs
import contextlib
import re

MAX_CONTROLS = 0.02
"""Largest share of control characters in bytes that still count as text."""

# UTF-32 (LE) begins like UTF-16, so it is checked first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = re.compile(r"[^\t\n\r\f\v\b\x1b -~\xa0-\U0010ffff]")  # except those usual in texts and terminal logs


def decode(data: bytes) -> str | None:
    """Decodes a file's bytes to text with line feeds as line ends. Returns None if they are not text.

    A byte order mark decides the encoding; else UTF-8, Windows-1252 and Latin-1 are tried in this order.
    """
    marked = [encoding for mark, encoding in _MARKS if data.startswith(mark)][:1]
    if not marked and b"\0" in data:
        return None
    for encoding in marked or ("utf-8", "cp1252", "latin-1"):
        with contextlib.suppress(UnicodeDecodeError):
            text = data.decode(encoding)
            break
    else:
        return None
    controls = len(_CONTROLS.findall(text))
    if "\0" in text or controls > MAX_CONTROLS * len(text):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")
