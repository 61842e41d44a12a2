"""Texts in a trace, so that a replay needs no tokenizer: the text of each token, and of the answer.

A PIEC payload: a count n (u32), token ids ascending (n u32), special ones as bits (n), the bytes of each text (n u16),
the texts in UTF-8. A trace holds each token's text once, before the first record that names the token.

A TEXT payload is a JSON object with ``text`` and ``thinking``. Each is a list: how many characters of the text before
stay, and what follows them. A block may change the last characters of the one before, if a character has several
tokens.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.events import Event
from engine.text.reply import Reply
from engine.trace.codec import LAYOUTS
from engine.trace.format import MAX_TRACED_VOCABULARY, PayloadError
from engine.trace.header import read_object

EMPTY = Reply("", "")
COUNT = struct.Struct("<I")
MAX_TOKEN_CHARACTERS = 256  # characters of a token's text that are kept; real tokens are far shorter


def tokens_of(event: Event) -> list[NDArray[Any]]:
    """Returns all tokens that an event names, in arrays of any shape."""
    rows = LAYOUTS[event.record.code].rows.items()
    named = [getattr(event, name) for name, row in rows if row.kind in ("tokens", "token")]
    return [np.asarray(tokens) for tokens in named if tokens is not None]


class NewTokens:
    """Finds the tokens that no earlier event named."""

    def __init__(self) -> None:
        self._known = np.zeros(1024, dtype=np.bool_)

    def named_by(self, event: Event) -> list[int]:
        """Returns the tokens that no earlier event named, ascending; from now on they are known."""
        named = [array.ravel() for array in tokens_of(event)]
        tokens = np.concatenate(named) if named else np.empty(0, dtype=np.int32)
        if not len(tokens):
            return []
        largest = int(tokens.max())
        if tokens.min() < 0 or largest >= MAX_TRACED_VOCABULARY:
            raise ValueError(f"token {largest} is not in the vocabulary")
        if largest >= len(self._known):
            self._known = np.concatenate([self._known, np.zeros(largest + 1, dtype=np.bool_)])
        fresh = tokens[~self._known[tokens]]
        self._known[fresh] = True
        return sorted(set(fresh.tolist()))


def encode_pieces(tokens: Sequence[int], piece: Callable[[int], str], is_special: Callable[[int], bool]) -> bytes:
    """Returns a PIEC payload for tokens in ascending order."""
    texts = [piece(token)[:MAX_TOKEN_CHARACTERS].encode("utf-8", "replace") for token in tokens]
    return b"".join(
        (
            COUNT.pack(len(tokens)),
            np.array(tokens, dtype="<u4").tobytes(),
            np.packbits(np.array([is_special(token) for token in tokens], dtype=np.bool_)).tobytes(),
            np.array([len(text) for text in texts], dtype="<u2").tobytes(),
            *texts,
        )
    )


class PieceRecord:
    """One PIEC payload; texts are decoded on request.

    Raises:
        PayloadError: it is none.
    """

    def __init__(self, payload: bytes) -> None:
        if len(payload) < COUNT.size:
            raise PayloadError("it is too short")
        (count,) = COUNT.unpack_from(payload)
        special = COUNT.size + 4 * count
        lengths = special + -(-count // 8)
        texts = lengths + 2 * count
        if len(payload) < texts:
            raise PayloadError("it is too short")
        ids = np.frombuffer(payload, dtype="<u4", count=count, offset=COUNT.size)
        bits = np.frombuffer(payload, dtype=np.uint8, count=lengths - special, offset=special)
        sizes = np.frombuffer(payload, dtype="<u2", count=count, offset=lengths).astype(np.int64)
        if (
            len(payload) != texts + int(sizes.sum())
            or (ids[1:] <= ids[:-1]).any()
            or (ids[-1:] >= MAX_TRACED_VOCABULARY).any()
        ):
            raise PayloadError("it contradicts itself")
        self.tokens = ids
        self._special, self._sizes, self._payload, self._texts = bits, sizes, payload, texts

    def get(self, token: int) -> tuple[str, bool]:
        """Returns the text of one of ``tokens``, and True if it is special."""
        place = int(np.searchsorted(self.tokens, token))
        start = self._texts + int(self._sizes[:place].sum())
        text = self._payload[start : start + int(self._sizes[place])].decode("utf-8", "replace")
        return text[:MAX_TOKEN_CHARACTERS], bool(self._special[place // 8] >> (7 - place % 8) & 1)


class TokenTexts:
    """The texts of all PIEC payloads that were added, in the file's order. Adding one reads only its ids."""

    def __init__(self) -> None:
        self.read = 0  # number of payloads, including skipped ones
        self._records: list[PieceRecord] = []
        self._owner = np.zeros(1024, dtype=np.int32)  # by token: the number of its record, from 1
        self._cache: dict[int, tuple[str, bool]] = {}

    def add(self, payload: bytes) -> None:
        """Adds a PIEC payload.

        Raises:
            PayloadError: it is none.
        """
        record = PieceRecord(payload)
        self.read += 1
        if not len(record.tokens):
            return
        self._records.append(record)
        more = int(record.tokens[-1]) + 1 - len(self._owner)
        if more > 0:
            self._owner = np.concatenate([self._owner, np.zeros(max(more, len(self._owner)), dtype=np.int32)])
        self._owner[record.tokens[self._owner[record.tokens] == 0]] = len(self._records)

    def skip(self) -> None:
        """Leaves out the next payload."""
        self.read += 1

    def __contains__(self, token: int) -> bool:
        return 0 <= token < len(self._owner) and bool(self._owner[token])

    def get(self, token: int) -> tuple[str, bool]:
        """Returns a token's text, and True if it is special; ``<id>`` if no record has it."""
        if token not in self._cache:
            if token not in self:
                return f"<{token}>", False
            self._cache[token] = self._records[self._owner[token] - 1].get(token)
        return self._cache[token]


def encode_reply(before: Reply, after: Reply) -> bytes:
    kept = [_shared(*pair) for pair in zip(before, after, strict=True)]
    changes = {name: [count, new[count:]] for name, count, new in zip(Reply._fields, kept, after, strict=True)}
    return json.dumps(changes).encode()


class AnswerText:
    """The answer's text, built from TEXT payloads in order.

    A payload costs its own length, not that of the text before.
    """

    def __init__(self) -> None:
        self._texts = {name: _EditedText() for name in Reply._fields}

    def add(self, payload: bytes) -> None:
        """Applies the next payload.

        Raises:
            PayloadError: it does not match the text before.
        """
        raw = read_object(payload, dict[str, tuple[int, str]])
        for name, part in self._texts.items():
            part.change(*raw.get(name, (-1, "")))

    @property
    def reply(self) -> Reply:
        return Reply(*(part.read() for part in self._texts.values()))


class _EditedText:
    """A text as a list of parts, each with the number of its characters that are kept."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, int]] = []
        self._length = 0

    def change(self, kept: int, added: str) -> None:
        if not 0 <= kept <= self._length:
            raise PayloadError("it does not match the text before")
        while self._length > kept:
            part, count = self._parts.pop()
            self._length -= count
            if self._length < kept:
                self._parts.append((part, kept - self._length))
                self._length = kept
        self._parts.append((added, len(added)))
        self._length += len(added)

    def read(self) -> str:
        return "".join(part[:count] for part, count in self._parts)


def _shared(old: str, new: str) -> int:
    """Returns the length of the common beginning."""
    if new.startswith(old):
        return len(old)
    return next(place for place, pair in enumerate(zip_longest(old, new)) if pair[0] != pair[1])
