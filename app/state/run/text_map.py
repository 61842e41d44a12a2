"""Text put together from tokens, with the place of each position in it. Knows neither Qt nor a tokenizer.

Pieces are joined as they are written one by one. A tokenizer that spreads one character over several tokens decodes
them together to something else; here each shows as what it is by itself, so that every position keeps its own place.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

UNSHOWABLE = "◇"
_BREAKS = "\x0b\x0c\x85\u2028\u2029"  # would end a line in some widgets and not in others
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # turn what follows them around


@dataclass(frozen=True)
class TextMap:
    """A text and where its positions stand, in UTF-16 units, which is what Qt counts in."""

    text: str
    edges: tuple[int, ...]  # of position p: from edges[p] to edges[p + 1]; equal where it has no text

    @cached_property
    def _filled(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Starts of the positions that have text, and these positions."""
        filled = [p for p in range(len(self.edges) - 1) if self.edges[p] < self.edges[p + 1]]
        return tuple(self.edges[p] for p in filled), tuple(filled)

    def span(self, position: int) -> tuple[int, int]:
        """From and to, equal where the position has no text. Raises IndexError outside."""
        if not 0 <= position < len(self.edges) - 1:
            raise IndexError(f"position {position} is outside a text of {len(self.edges) - 1} positions")
        return self.edges[position], self.edges[position + 1]

    def position_at(self, offset: int) -> int:
        """The position whose text is at an offset; -1 before, behind, or in an empty text."""
        starts, filled = self._filled
        place = bisect_right(starts, offset) - 1
        if place < 0 or offset >= self.edges[filled[place] + 1]:
            return -1
        return filled[place]


def read(tokens: Sequence[int], piece: Callable[[int], str], is_special: Callable[[int], bool]) -> TextMap:
    """Join the pieces of tokens; control tokens have no text."""
    parts: list[str] = []
    edges = [0]
    for token in tokens:
        part = "" if is_special(token) else shown(piece(token))
        parts.append(part)
        edges.append(edges[-1] + units(part))
    return TextMap("".join(parts), tuple(edges))


def units(text: str) -> int:
    """UTF-16 units: two for a character beyond the basic plane, most emoji among them."""
    return len(text) + sum(character > "\uffff" for character in text)


def shown(piece: str) -> str:
    """A piece with a sign for every character that a text widget would swallow or obey.

    Carriage returns are left out: beside a line feed, which may be another token, they would make a second line.
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
