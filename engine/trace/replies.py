"""The answer's text in a trace: what it read after each committed block, and in the end.

A TEXT payload is a JSON object with ``text`` and ``thinking``, each as [how many characters of the text before stay,
what follows them]: a block may change the last characters of the one before, where a sign has several tokens.
"""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any

from engine.text.reply import Reply
from engine.trace.format import DamagedError
from engine.trace.header import read_object, text

EMPTY = Reply("", "")


def encode(before: Reply, after: Reply) -> bytes:
    """A TEXT payload."""
    kept = [_shared(*pair) for pair in zip(before, after, strict=True)]
    changes = {name: [count, new[count:]] for name, count, new in zip(Reply._fields, kept, after, strict=True)}
    return json.dumps(changes).encode()


class GrowingReply:
    """The answer as TEXT payloads make it, one after the other. Each costs what it adds, whatever was there before."""

    def __init__(self) -> None:
        self._texts = {name: _Text() for name in Reply._fields}

    def add(self, payload: bytes) -> None:
        """Take in the next payload.

        Raises:
            DamagedError: it does not go with the text before.
        """
        raw = read_object(payload)
        for name, told in self._texts.items():
            told.change(raw.get(name))

    @property
    def reply(self) -> Reply:
        """As it reads now."""
        return Reply(*(told.read() for told in self._texts.values()))


class _Text:
    """A text in parts, of each of which the first so many characters count."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, int]] = []
        self._length = 0

    def change(self, change: Any) -> None:
        if not isinstance(change, list) or len(change) != 2 or type(change[0]) is not int:
            raise DamagedError("it does not go with the text before")
        kept, added = change[0], text({"text": change[1]}, "text")
        if not 0 <= kept <= self._length:
            raise DamagedError("it does not go with the text before")
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
    """How many characters both begin with."""
    if new.startswith(old):
        return len(old)
    return next(place for place, pair in enumerate(zip_longest(old, new)) if pair[0] != pair[1])
