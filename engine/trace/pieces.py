"""The texts of tokens, which a trace brings along so that its replay needs no tokenizer.

A PIEC payload: a count n (u32), token ids ascending (n u32), special ones as bits (n), the bytes of each text (n u16),
the texts in UTF-8. A token is told once in a trace, before the first record that names it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.events import CanvasCommitted, CanvasStarted, Event, GenerationFinished, StepFinished
from engine.trace.layout import MOST_TEXTS, MOST_TOKENS, DamagedError

COUNT = struct.Struct("<I")
LONGEST = 1000  # characters of a token's text that are kept; no real token comes near


def tokens_of(event: Event) -> list[NDArray[Any]]:
    """All tokens that an event names, in arrays of any shape."""
    match event:
        case CanvasStarted():
            return [event.canvas]
        case StepFinished():
            named = [event.argmax_canvas, event.candidates, event.next_canvas]
            return named if event.top_tokens is None else [*named, event.top_tokens]
        case CanvasCommitted() | GenerationFinished():
            return [event.tokens]
    return []


class NewTokens:
    """Finds the tokens that were not there before."""

    def __init__(self) -> None:
        self._known = np.zeros(1024, dtype=np.bool_)

    def of(self, event: Event) -> list[int]:
        """The tokens that no event before named, ascending; from now on they are known."""
        named = [array.ravel() for array in tokens_of(event)]
        tokens = np.concatenate(named) if named else np.empty(0, dtype=np.int32)
        if not len(tokens):
            return []
        largest = int(tokens.max())
        if tokens.min() < 0 or largest >= MOST_TOKENS:
            raise ValueError(f"token {largest} is in no vocabulary")
        if largest >= len(self._known):
            self._known = np.concatenate([self._known, np.zeros(largest + 1, dtype=np.bool_)])
        fresh = tokens[~self._known[tokens]]
        self._known[fresh] = True
        return sorted(set(fresh.tolist()))


def encode(tokens: Sequence[int], piece: Callable[[int], str], is_special: Callable[[int], bool]) -> bytes:
    """A PIEC payload for tokens in ascending order."""
    texts = [piece(token)[:LONGEST].encode("utf-8", "replace") for token in tokens]
    return b"".join(
        (
            COUNT.pack(len(tokens)),
            np.array(tokens, dtype="<u4").tobytes(),
            np.packbits(np.array([is_special(token) for token in tokens], dtype=np.bool_)).tobytes(),
            np.array([len(text) for text in texts], dtype="<u2").tobytes(),
            *texts,
        )
    )


class Pieces:
    """One PIEC payload, read as far as it is asked.

    Raises:
        DamagedError: it is none.
    """

    def __init__(self, payload: bytes) -> None:
        if len(payload) < COUNT.size:
            raise DamagedError("it is too short")
        (count,) = COUNT.unpack_from(payload)
        special = COUNT.size + 4 * count
        lengths = special + -(-count // 8)
        texts = lengths + 2 * count
        if len(payload) < texts:
            raise DamagedError("it is too short")
        ids = np.frombuffer(payload, dtype="<u4", count=count, offset=COUNT.size)
        bits = np.frombuffer(payload, dtype=np.uint8, count=lengths - special, offset=special)
        sizes = np.frombuffer(payload, dtype="<u2", count=count, offset=lengths).astype(np.int64)
        if len(payload) != texts + int(sizes.sum()) or (count and (np.diff(ids.astype(np.int64)) <= 0).any()):
            raise DamagedError("it contradicts itself")
        self.tokens: list[int] = ids.tolist()
        self._ids, self._special = ids, np.unpackbits(bits, count=count)
        self._ends = texts + np.cumsum(sizes)
        self._sizes, self._payload = sizes, payload

    def get(self, token: int) -> tuple[str, bool]:
        """The text of one of ``tokens``, and whether it is special."""
        place = int(np.searchsorted(self._ids, token))
        end = int(self._ends[place])
        text = self._payload[end - int(self._sizes[place]) : end].decode("utf-8", "replace")
        return text, bool(self._special[place])


class TokenTexts:
    """The texts of all PIEC payloads that were added, in the file's order. Of each it reads the ids, and no more."""

    def __init__(self) -> None:
        self.read = 0  # payloads, those that were skipped too
        self._bytes = 0
        self._owner: dict[int, Pieces] = {}
        self._said: dict[int, tuple[str, bool]] = {}

    def add(self, payload: bytes) -> None:
        """
        Raises:
            DamagedError: it is none, or there are more texts than any vocabulary has.
        """
        self._bytes += len(payload)
        if self._bytes > MOST_TEXTS:
            raise DamagedError("there are more texts than any vocabulary has")
        found = Pieces(payload)
        for token in found.tokens:
            self._owner.setdefault(token, found)
        self.read += 1

    def skip(self) -> None:
        """Leave out the next payload."""
        self.read += 1

    def __contains__(self, token: int) -> bool:
        return token in self._owner

    def get(self, token: int) -> tuple[str, bool]:
        """A token's text and whether it is special; its number where nobody said."""
        if token not in self._said:
            owner = self._owner.get(token)
            if owner is None:
                return f"<{token}>", False
            self._said[token] = owner.get(token)
        return self._said[token]
