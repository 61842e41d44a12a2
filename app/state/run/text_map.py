"""Joins the text of tokens and maps positions to places in it. Knows neither Qt nor a tokenizer.

Each token is decoded by itself. A tokenizer that spreads one character over several tokens would decode them together
to something else; decoding each by itself gives every position its own place.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

UNSHOWABLE = "◇"
_BREAKS = "\x0b\x0c\x85\u2028\u2029"  # end a line in some widgets only
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # change the writing direction


@dataclass(frozen=True)
class TextMap:
    """A text and the places of its positions in UTF-16 units, the units that Qt counts in."""

    text: str
    edges: tuple[int, ...]  # position p lies from edges[p] to edges[p + 1]; these are equal if it has no text

    @cached_property
    def _filled(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The starts of the positions that have text, and these positions."""
        filled = [p for p in range(len(self.edges) - 1) if self.edges[p] < self.edges[p + 1]]
        return tuple(self.edges[p] for p in filled), tuple(filled)

    def span(self, position: int) -> tuple[int, int]:
        """Returns the start and end of a position, equal if it has no text. Raises IndexError outside the text."""
        if not 0 <= position < len(self.edges) - 1:
            raise IndexError(f"position {position} is outside a text of {len(self.edges) - 1} positions")
        return self.edges[position], self.edges[position + 1]

    def position_at(self, offset: int) -> int:
        """Returns the position whose text is at an offset; -1 if there is none."""
        starts, filled = self._filled
        place = bisect_right(starts, offset) - 1
        if place < 0 or offset >= self.edges[filled[place] + 1]:
            return -1
        return filled[place]


def read(tokens: Sequence[int], piece: Callable[[int], str], is_special: Callable[[int], bool]) -> TextMap:
    """Joins the text of tokens; control tokens have no text."""
    parts: list[str] = []
    edges = [0]
    for token in tokens:
        part = "" if is_special(token) else shown(piece(token))
        parts.append(part)
        edges.append(edges[-1] + units(part))
    return TextMap("".join(parts), tuple(edges))


def units(text: str) -> int:
    """Returns the length in UTF-16 units: two for a character outside the basic plane, such as most emoji."""
    return len(text) + sum(character > "\uffff" for character in text)


def shown(piece: str) -> str:
    """Returns a token's text with a sign for every character that a text widget would hide or act on.

    Carriage returns are left out: next to a line feed, which may be another token, they would make a second line.
    """
    return piece if piece.isprintable() else "".join(_shown(character) for character in piece if character != "\r")


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    if character in _BREAKS:
        return "\n"
    code = ord(character)
    unwritten = unicodedata.category(character) in ("Cc", "Cs") or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    return UNSHOWABLE if unwritten or character in _TURNS else character
