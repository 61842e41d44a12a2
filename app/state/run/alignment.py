"""Maps the letters of a text on the page to those of its source with markup. Knows no Markdown.

The shown text is nearly the source with letters left out. Both end together, so words are searched from the end
backwards: each whole, a little before the last one found. A word that is interrupted in the source, for example by
emphasis, is searched letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

WORD_BEFORE, LETTER_BEFORE = 2_000, 12
"""UTF-16 units that may be left out after a word, and after a letter of a word that is not found whole."""
MOST_LOST = 20  # words in a row that are not found, after which the search ends
_WORD = re.compile(r"\S+")


def utf16(text: str) -> str:
    """Returns a text as one character for each UTF-16 unit, the unit that Qt counts in."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(low | high << 8) for low, high in zip(data[::2], data[1::2], strict=True))


class Alignment:
    """Finds stretches of a shown text in ``written``, the last stretch first; all in UTF-16 units."""

    def __init__(self, written: str) -> None:
        self._written = utf16(written)
        self._end = len(self._written)  # everything after it has been found or left out
        self._lost = 0

    @property
    def is_over(self) -> bool:
        """True if nothing more will be found: ``written`` is used up, or the shown text is not part of it."""
        return not self._end or self._lost > MOST_LOST

    def places(self, shown: str) -> Iterator[tuple[int, int]]:
        """Yields the letters of the next stretch, the last first: the place in it, and the place in ``written``.

        Each call passes the stretch before the one passed in the call before.
        """
        for word in reversed(list(_WORD.finditer(utf16(shown)))):
            if self.is_over:
                return
            found = self._word(word.group()) or self._letters(word.group()) or self._rest_of(word.group())
            self._lost = 0 if found else self._lost + 1
            if found:
                self._end = found[0]
                yield from reversed(list(zip(range(word.end() - len(found), word.end()), found, strict=True)))

    def _word(self, word: str) -> Sequence[int]:
        """Returns the places of a word's letters at its last whole-word match, else its last match, else empty."""
        first = max(0, self._end - WORD_BEFORE - len(word))
        last = place = self._written.rfind(word, first, self._end)
        while place >= 0 and not self._is_apart(place, place + len(word)):
            place = self._written.rfind(word, first, place + len(word) - 1)
        place = place if place >= 0 else last
        return range(place, place + len(word)) if place >= 0 else ()

    def _letters(self, word: str) -> Sequence[int]:
        """Returns the last places of a word's letters if all are found close together; else empty."""
        found: list[int] = []
        end = self._end
        for letter in reversed(word):
            end = self._written.rfind(letter, max(0, end - LETTER_BEFORE), end)
            if end < 0:
                return ()
            found.append(end)
        return found[::-1]

    def _rest_of(self, word: str) -> Sequence[int]:
        """Returns the places of the beginning of ``written`` if a shown word ends with all of it; else empty."""
        rest = self._written[: self._end].rstrip()
        return range(len(rest)) if rest and word.endswith(rest) else ()

    def _is_apart(self, start: int, end: int) -> bool:
        """True if the word does not continue with a letter or digit before its start or after its end."""
        text = self._written
        before = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
        behind = end < len(text) and text[end].isalnum() and text[end - 1].isalnum()
        return not (before or behind)
