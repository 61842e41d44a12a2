"""A JSON object that is written from left to right; every piece goes on with the last."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

_BRACKETS = {"{": "}", "[": "]"}


@dataclass
class _Open:
    """An object or a list that is not closed yet."""

    opener: str
    is_left_out: bool
    keys: set[str] = field(default_factory=set)
    is_empty: bool = True


class GrowingJson:
    """Values are begun, written and, where they are objects or lists, closed.

    The second value of one key in an object is left out with everything in it, since a JSON object has none.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._open: list[_Open] = []
        self._is_left_out = False  # the value being written

    def take(self) -> str:
        """What was written since the last call."""
        taken = "".join(self._pieces)
        self._pieces.clear()
        return taken

    def begin(self, key: str = "") -> None:
        """A value begins: in an object that of a key, in a list the next."""
        level = self._open[-1]
        self._is_left_out = level.is_left_out or key in level.keys
        if self._is_left_out:
            return
        comma = "" if level.is_empty else ", "
        level.is_empty = False
        if level.opener == "{":
            level.keys.add(key)
            comma += f"{_string(key)}: "
        self._pieces.append(comma)

    def write(self, text: str) -> None:
        """A piece of the value that was begun, as JSON."""
        if not self._is_left_out:
            self._pieces.append(text)

    def write_string(self, text: str) -> None:
        """A piece of a string's inside."""
        if not self._is_left_out:
            self._pieces.append(_string(text)[1:-1])

    def open(self, opener: str) -> None:
        """The value that was begun is an object or a list."""
        self.write(opener)
        self._open.append(_Open(opener, self._is_left_out))

    def close(self) -> None:
        """The innermost object or list ends."""
        level = self._open.pop()
        self._is_left_out = level.is_left_out
        self.write(_BRACKETS[level.opener])


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
