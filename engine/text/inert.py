"""Special tokens that people write in a message, broken so that a tokenizer reads them as ordinary text.

A person may ask what ``<|im_end|>`` is, and a page that a tool fetched may hold one: it must not end the turn. A
template inserts messages as texts. Therefore a character is put into each such token before, and removed afterwards by
``Tokenizer.encode_rendered``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

BREAK = "\ufdd0"
"""The character within a broken token. Unicode guarantees that it never is a character of a text."""


class Inert:
    """Breaks special tokens in a text, each after its first character. Takes time linear in the text.

    Args:
        tokens: in their written form.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = {token for token in tokens if len(token) > 1}
        lengths: dict[str, set[int]] = defaultdict(set)
        for token in self._tokens:
            lengths[token[0]].add(len(token))
        self._lengths = {first: sorted(found) for first, found in lengths.items()}
        self._first = re.compile("[" + "".join(map(re.escape, lengths)) + "]") if lengths else None

    def __call__(self, text: str) -> str:
        """Returns the text with its special tokens broken, including overlapping ones."""
        text = text.replace(BREAK, "\N{REPLACEMENT CHARACTER}")
        return text if self._first is None else self._first.sub(self._broken, text)

    def _broken(self, found: re.Match[str]) -> str:
        first, place = found[0], found.start()
        is_token = any(found.string[place : place + size] in self._tokens for size in self._lengths[first])
        return first + BREAK if is_token else first
