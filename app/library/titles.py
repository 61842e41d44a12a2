"""A conversation's title from its first prompt."""

from __future__ import annotations

import unicodedata

LONGEST = 48  # characters
SHORTEST = 24  # a line is cut within a word rather than shorter than this
_JOINERS = ("\u200d", "\ufe0f", "\ufe0e")


def title_of(text: str) -> str:
    """The first line that says something, at most ``LONGEST`` characters, cut at a word; empty where there is none."""
    line = next((said for said in map(_said, text.splitlines()) if said), "")
    if len(line) <= LONGEST:
        return line
    end = line.rfind(" ", 0, LONGEST)
    if end < SHORTEST:
        end = LONGEST - 1
        while end > 1 and (_hangs_on(line[end]) or line[end - 1] == _JOINERS[0]):
            end -= 1
    return line[:end].rstrip(" ,;:.-–—") + "…"


def _said(line: str) -> str:
    """A line without the marks of a heading, and with single spaces for all that cannot be seen."""
    visible = "".join(" " if unicodedata.category(sign) in ("Cc", "Cs") else sign for sign in line)
    return " ".join(visible.split()).lstrip("#").lstrip()


def _hangs_on(sign: str) -> bool:
    """Whether it is drawn as one with the character before."""
    return sign in _JOINERS or bool(unicodedata.combining(sign)) or 0x1F3FB <= ord(sign) <= 0x1F3FF
