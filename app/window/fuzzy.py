"""Fuzzy search by a few letters, tolerating typing errors. Knows no Qt."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
_WORDS = re.compile(r"\w+")

AT_START, IN_A_ROW, APART = 8.0, 5.0, 1.0
NEARLY, PER_ERROR = 3.0, 6.0  # score of a letter in a word with errors, and penalty of an error
LEAST_NEARLY, TWO_ERRORS = 4, 8  # letters that a word needs for one tolerated error, and for two
PER_SKIPPED = 0.05
"""Penalty per character, so that of equal matches the longer text ranks lower."""


def folded(text: str) -> str:
    """Folds a text to lower case without accents, so that "resume" finds "Résumé"."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def score(query: str, text: str) -> float | None:
    """Scores how well a text matches; None if a word of the query does not match.

    Each word's letters must occur in the text in order; those at word starts or in a row score higher. Or the word
    must be the beginning of a word of the text, except for a wrong, missing, extra or swapped letter.
    """
    text = folded(text)
    total = 0.0
    for word in folded(query).split():
        best = max((_from(word, text, start) for start, letter in enumerate(text) if letter == word[0]), default=None)
        if best is None or best < 0:
            best = _nearly(word, text)
        if best < 0:
            return None
        total += best
    return total - PER_SKIPPED * len(text)


def _from(word: str, text: str, start: int) -> float:
    """Scores the word's letters, matched greedily from ``start`` on; -1 if one is missing."""
    total, before, at = 0.0, -2, start
    for letter in word:
        at = text.find(letter, max(at, before + 1))
        if at < 0:
            return -1.0
        begins = at == 0 or not text[at - 1].isalnum()
        total += AT_START if begins else IN_A_ROW if at == before + 1 else APART
        if at == before + 1:
            total += IN_A_ROW if begins else 0.0
        before = at
    return total


def _nearly(word: str, text: str) -> float:
    """Scores a word with typing errors; -1 if no word of the text begins like it."""
    most = 0 if len(word) < LEAST_NEARLY else 1 if len(word) < TWO_ERRORS else 2
    near = (part for part in _WORDS.findall(text) if most and part[0] in word[:2])
    errors = min((_errors(word, part[: len(word) + most]) for part in near), default=most + 1)
    return NEARLY * len(word) - PER_ERROR * errors if errors <= most else -1.0


def _errors(word: str, text: str) -> int:
    """Counts the fewest wrong, missing, extra or swapped letters between a word and the beginning of another."""
    before, row = [0] * (len(text) + 1), list(range(len(text) + 1))
    for i, letter in enumerate(word, 1):
        further = [i]
        for j, other in enumerate(text, 1):
            cost = min(row[j] + 1, further[j - 1] + 1, row[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == text[j - 2] and other == word[i - 2]:
                cost = min(cost, before[j - 2] + 1)
            further.append(cost)
        before, row = row, further
    return min(row)


def ranked(query: str, things: Iterable[T], text_of: Callable[[T], str]) -> list[T]:
    """Returns the matching entries, best first; all in their own order for an empty query."""
    if not query.split():
        return list(things)
    scored = [(score(query, text_of(thing)), thing) for thing in things]
    found = [(value, thing) for value, thing in scored if value is not None]
    return [thing for _value, thing in sorted(found, key=lambda pair: -pair[0])]  # stable: equal scores keep order
