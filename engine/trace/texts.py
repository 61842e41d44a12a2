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
from engine.trace.format import MOST_TOKENS, DamagedError

COUNT = struct.Struct("<I")
LONGEST = 256  # characters of a token's text that are kept; no real token comes near


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
        if len(payload) != texts + int(sizes.sum()) or (ids[1:] <= ids[:-1]).any() or (ids[-1:] >= MOST_TOKENS).any():
            raise DamagedError("it contradicts itself")
        self.tokens = ids
        self._special, self._sizes, self._payload, self._texts = bits, sizes, payload, texts

    def get(self, token: int) -> tuple[str, bool]:
        """The text of one of ``tokens``, and whether it is special."""
        place = int(np.searchsorted(self.tokens, token))
        start = self._texts + int(self._sizes[:place].sum())
        text = self._payload[start : start + int(self._sizes[place])].decode("utf-8", "replace")
        return text[:LONGEST], bool(self._special[place // 8] >> (7 - place % 8) & 1)


class TokenTexts:
    """The texts of all PIEC payloads that were added, in the file's order. Of each it reads the ids, and no more."""

    def __init__(self) -> None:
        self.read = 0  # payloads, those that were skipped too
        self._pieces: list[Pieces] = []
        self._owner = np.zeros(1024, dtype=np.int32)  # by token: the number of its piece, from 1
        self._said: dict[int, tuple[str, bool]] = {}

    def add(self, payload: bytes) -> None:
        """
        Raises:
            DamagedError: it is none.
        """
        found = Pieces(payload)
        self.read += 1
        if not len(found.tokens):
            return
        self._pieces.append(found)
        more = int(found.tokens[-1]) + 1 - len(self._owner)
        if more > 0:
            self._owner = np.concatenate([self._owner, np.zeros(max(more, len(self._owner)), dtype=np.int32)])
        self._owner[found.tokens[self._owner[found.tokens] == 0]] = len(self._pieces)

    def skip(self) -> None:
        """Leave out the next payload."""
        self.read += 1

    def __contains__(self, token: int) -> bool:
        return 0 <= token < len(self._owner) and bool(self._owner[token])

    def get(self, token: int) -> tuple[str, bool]:
        """A token's text and whether it is special; its number where nobody said."""
        if token not in self._said:
            if token not in self:
                return f"<{token}>", False
            self._said[token] = self._pieces[self._owner[token] - 1].get(token)
        return self._said[token]
