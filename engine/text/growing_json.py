"""A JSON object that is written from left to right, so that it can be read piece by piece."""

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
    """Writes values in three steps: begin, write, and close if they are objects or lists.

    A second value of one key in an object is left out with everything in it, since a JSON object must not have one.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._open: list[_Open] = []
        self._is_left_out = False  # the value being written

    def take(self) -> str:
        """Returns the text written since the last call."""
        taken = "".join(self._pieces)
        self._pieces.clear()
        return taken

    def begin(self, key: str = "") -> None:
        """Begins a value: in an object that of a key, in a list the next item."""
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
        """Writes a piece of the current value, as JSON."""
        if not self._is_left_out:
            self._pieces.append(text)

    def write_string(self, text: str) -> None:
        """Writes a piece of a string's content."""
        if not self._is_left_out:
            self._pieces.append(_string(text)[1:-1])

    def open(self, opener: str) -> None:
        """Opens the current value as an object or a list."""
        self.write(opener)
        self._open.append(_Open(opener, self._is_left_out))

    def close(self) -> None:
        """Closes the innermost object or list."""
        level = self._open.pop()
        self._is_left_out = level.is_left_out
        self.write(_BRACKETS[level.opener])


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
