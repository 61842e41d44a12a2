"""Which letters of a text on the page are which of the text as it was written, markup and all. Knows no Markdown.

What is shown is nearly what was written with letters left out. Words are looked for whole, a little ahead of the last
one; of a word that is written in parts, as with emphasis inside it, the letters are looked for one by one.
"""

from __future__ import annotations

import re

WORD_AHEAD, LETTER_AHEAD = 2_000, 12
"""Units that may be left out before a word, and before a letter of one that is not found whole."""
_WORD = re.compile(r"\S+")


def utf16(text: str) -> str:
    """A text as one character for each UTF-16 unit, which is what Qt counts in."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(low | high << 8) for low, high in zip(data[::2], data[1::2], strict=True))


class Alignment:
    """Finds stretches of a shown text in ``written``, from the offset ``at`` on; all in UTF-16 units."""

    def __init__(self, written: str, at: int = 0) -> None:
        self._written = utf16(written)
        self._at = at

    def places(self, shown: str) -> list[tuple[int, int]]:
        """Of the letters in the next stretch that are found, the offset in it, and that in what was written."""
        found: list[tuple[int, int]] = []
        for match in _WORD.finditer(utf16(shown)):
            word = match.group()
            place = self._next(word, WORD_AHEAD)
            if place >= 0:
                found += [(match.start() + offset, place + offset) for offset in range(len(word))]
                continue
            for offset, letter in enumerate(word):
                place = self._next(letter, LETTER_AHEAD)
                if place >= 0:
                    found.append((match.start() + offset, place))
        return found

    def _next(self, letters: str, ahead: int) -> int:
        place = self._written.find(letters, self._at, self._at + ahead + len(letters))
        if place >= 0:
            self._at = place + len(letters)
        return place
