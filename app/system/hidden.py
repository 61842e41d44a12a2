"""Shows the signs of a text from outside that nobody would see. Knows no Qt."""

from __future__ import annotations

import re

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Control characters but tabs and line breaks, and what Unicode calls default ignorable."""
_JOINED = "[\u0590-\u0dff\u2190-\u2bff\U0001f000-\U0001faff]"
"""Letters and pictures that such signs join, as in Persian words and in families of people."""
_FOUND = re.compile(f"((?<={_JOINED})(?:\ufe0f\u200d|\ufe0f|[\u200c\u200d](?={_JOINED})))|[{_HIDDEN}]")


def visible(text: str) -> str:
    """Returns a text with the number of each hidden sign in its place, such as ⟨U+200B⟩."""
    return _FOUND.sub(lambda match: match[1] or f"⟨U+{ord(match[0]):04X}⟩", text)
