"""Makes text safe to show by making invisible characters visible. Knows no Qt.

A text may contain characters that reverse the reading order, end the line or have a meaning for the layout engine.
None of them is dropped silently.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Overrides and embeddings could show a text in another order than it has; plain marks (LRM, RLM, ALM) cannot.
_TURNS = "\u202a-\u202e\u2066-\u2069"
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
# Lone surrogates, non-characters (Qt marks frames with some of them) and the object replacement character.
_NONE = "\ud800-\udfff\ufdd0-\ufdef\ufffc\ufffe\uffff"
_UNSAFE = re.compile(f"[{_TURNS}{_CONTROLS}{_NONE}]")


def safe(text: str) -> str:
    """Returns the text with every character visible; its lines end with ``\\n``."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    return _UNSAFE.sub(_visible, text)


def _visible(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code < 0xA0 or chr(code) in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        return f"[U+{code:04X}]"
    return "\ufffd"


@lru_cache(maxsize=1024)
def is_rtl(text: str) -> bool:
    """Returns True if the first letter with a direction is written from right to left."""
    for letter in text:
        direction = unicodedata.bidirectional(letter)
        if direction in ("R", "AL"):
            return True
        if direction == "L":
            return False
    return False
