"""The answer's text in a trace: what it read after each committed block, and in the end.

A TEXT payload is a JSON object with ``text`` and ``thinking``, each as [how many characters of the text before stay,
what follows them]: a block may change the last characters of the one before, where a sign has several tokens.
"""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any

from engine.reply import Reply
from engine.trace.header import read_object, text
from engine.trace.layout import MOST_TEXTS, DamagedError

EMPTY = Reply("", "")


def encode(before: Reply, after: Reply) -> bytes:
    """A TEXT payload."""
    kept = [_shared(*pair) for pair in zip(before, after, strict=True)]
    changes = {name: [count, new[count:]] for name, count, new in zip(Reply._fields, kept, after, strict=True)}
    return json.dumps(changes).encode()


def decode(before: Reply, payload: bytes) -> Reply:
    """The answer after a TEXT payload.

    Raises:
        DamagedError: it does not go with the text before.
    """
    raw = read_object(payload)
    found = Reply(*(_changed(old, raw.get(name)) for name, old in zip(Reply._fields, before, strict=True)))
    if len(found.text) + len(found.thinking) > MOST_TEXTS:
        raise DamagedError("it is larger than any answer")
    return found


def _shared(old: str, new: str) -> int:
    """How many characters both begin with."""
    if new.startswith(old):
        return len(old)
    return next(place for place, pair in enumerate(zip_longest(old, new)) if pair[0] != pair[1])


def _changed(old: str, change: Any) -> str:
    if not isinstance(change, list) or len(change) != 2 or type(change[0]) is not int or not 0 <= change[0] <= len(old):
        raise DamagedError("it does not go with the text before")
    return old[: change[0]] + text({"text": change[1]}, "text")
