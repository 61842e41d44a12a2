"""Which letters of a text on the page are which of the text as it was written, markup and all. Knows no Markdown.

What is shown is nearly what was written with letters left out. Both end together, so words are looked for from the end
backwards, whole and a little before the last one. Of a word that is written in parts, as with emphasis inside it, the
letters are looked for one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

WORD_BEFORE, LETTER_BEFORE = 2_000, 12
"""Units that may be left out behind a word, and behind a letter of one that is not found whole."""
MOST_LOST = 20  # words in a row that are not found; then nothing more is looked for
_WORD = re.compile(r"\S+")


def utf16(text: str) -> str:
    """A text as one character for each UTF-16 unit, which is what Qt counts in."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(low | high << 8) for low, high in zip(data[::2], data[1::2], strict=True))


class Alignment:
    """Finds stretches of a shown text, from the last one on, in ``written``; all in UTF-16 units."""

    def __init__(self, written: str) -> None:
        self._written = utf16(written)
        self._end = len(self._written)  # what is behind has been found, or left out
        self._lost = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be found: all of ``written`` was, or what is shown is no part of it."""
        return not self._end or self._lost > MOST_LOST

    def places(self, shown: str) -> Iterator[tuple[int, int]]:
        """Of letters in the stretch before those asked for, from the last on: where in it, and where in ``written``."""
        for word in reversed(list(_WORD.finditer(utf16(shown)))):
            if self.is_over:
                return
            found = self._word(word.group()) or self._letters(word.group()) or self._rest_of(word.group())
            self._lost = 0 if found else self._lost + 1
            if found:
                self._end = found[0]
                yield from reversed(list(zip(range(word.end() - len(found), word.end()), found, strict=True)))

    def _word(self, word: str) -> Sequence[int]:
        """The last place of a word that stands by itself, or else the last one, letter by letter; empty without any."""
        first = max(0, self._end - WORD_BEFORE - len(word))
        last = place = self._written.rfind(word, first, self._end)
        while place >= 0 and not self._is_apart(place, place + len(word)):
            place = self._written.rfind(word, first, place + len(word) - 1)
        place = place if place >= 0 else last
        return range(place, place + len(word)) if place >= 0 else ()

    def _letters(self, word: str) -> Sequence[int]:
        """The last places of a word's letters, where all of them are found close together; else empty."""
        found: list[int] = []
        end = self._end
        for letter in reversed(word):
            end = self._written.rfind(letter, max(0, end - LETTER_BEFORE), end)
            if end < 0:
                return ()
            found.append(end)
        return found[::-1]

    def _rest_of(self, word: str) -> Sequence[int]:
        """The beginning of what was written, where that is the rest of a word that was begun before it; else empty."""
        rest = self._written[: self._end].rstrip()
        return range(len(rest)) if rest and word.endswith(rest) else ()

    def _is_apart(self, start: int, end: int) -> bool:
        """Whether no letter or digit goes on before or behind."""
        text = self._written
        before = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
        behind = end < len(text) and text[end].isalnum() and text[end - 1].isalnum()
        return not (before or behind)
