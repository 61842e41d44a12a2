"""Fuzzy search by a few letters. Knows no Qt."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

AT_START, IN_A_ROW, APART = 8.0, 5.0, 1.0
PER_SKIPPED = 0.05
"""Penalty per character, so that of equal matches the longer text ranks lower."""


def folded(text: str) -> str:
    """Lower case without accents, so that "resume" finds "Résumé"."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def score(query: str, text: str) -> float | None:
    """How well a text matches; None if a word of the query does not match.

    Each word's letters must occur in the text in order; letters at word starts or in a row score higher.
    """
    text = folded(text)
    total = 0.0
    for word in folded(query).split():
        best = max((_from(word, text, start) for start, letter in enumerate(text) if letter == word[0]), default=None)
        if best is None or best < 0:
            return None
        total += best
    return total - PER_SKIPPED * len(text)


def _from(word: str, text: str, start: int) -> float:
    """The score of the word's letters matched greedily from ``start`` on; -1 if one is missing."""
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


def ranked(query: str, things: Iterable[T], text_of: Callable[[T], str]) -> list[T]:
    """The matching things, best first; all in their own order for an empty query."""
    if not query.split():
        return list(things)
    scored = [(score(query, text_of(thing)), thing) for thing in things]
    found = [(value, thing) for value, thing in scored if value is not None]
    return [thing for _value, thing in sorted(found, key=lambda pair: -pair[0])]  # stable: equals keep their order
