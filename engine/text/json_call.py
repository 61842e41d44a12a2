"""A call of a tool as one JSON object, ``{"name": …, "arguments": …}``, which is read once it is whole."""

from __future__ import annotations

import re
from typing import Any

from engine.errors import SafelightError
from engine.files import parse_json

MAX_CALL = 2**20
"""Characters of one call."""
NAME = r"(?P<name>[\w./-]{1,128})"

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_WITHIN = re.compile(r'[^"\\]*')
_BETWEEN = re.compile(r"[\s,:+\-.\dEaeflnrstu]*")  # of numbers, true, false and null, too


def read_call(text: str) -> tuple[str, dict[str, Any]] | None:
    """Returns a call's name and arguments; None if the text is no call. Strings may have line breaks as they are."""
    text = _STRING.sub(lambda found: _CONTROL.sub(lambda sign: f"\\u{ord(sign[0]):04x}", found[0]), text)
    try:
        found = parse_json(text, "a call")
        name, arguments = found["name"], found.get("arguments", found.get("parameters", {}))
        if isinstance(arguments, str):  # as JSON in a string
            arguments = parse_json(arguments or "{}", "the arguments")
    except (SafelightError, KeyError, TypeError, AttributeError):
        return None
    is_call = isinstance(name, str) and re.fullmatch(NAME, name) and isinstance(arguments, dict)
    return (name, arguments) if is_call else None


class JsonCall:
    """The text from ``<tool_call>`` on, as long as it may be one JSON object; in its strings no tag counts.

    Args:
        is_line: the tag stands at the beginning of a line.
    """

    def __init__(self, *, is_line: bool) -> None:
        self.is_line = is_line
        self.parts: list[tuple[str, bool]] = []  # texts, and True for those that are tags
        self.is_broken = False  # it is no object, or too long
        self._room = MAX_CALL
        self._depth = 0
        self._is_whole = self._in_string = self._is_escaped = False

    def read(self) -> tuple[str, dict[str, Any]] | None:
        """Returns the call; see ``read_call``."""
        return read_call("".join(part for part, _ in self.parts))

    def takes(self, part: str, *, is_tag: bool) -> bool:
        """Takes a text, or a tag within a string; returns False for another tag."""
        if is_tag and not self._in_string:
            return False
        self.parts.append((part, is_tag))
        self._room -= len(part)
        self.is_broken = self._room < 0 or not self._follows(part)
        return True

    def _follows(self, text: str) -> bool:
        """Reads on; returns False if no object goes on so."""
        place = 0
        while place < len(text):
            if self._is_escaped:
                self._is_escaped = False
            elif self._in_string:
                place = _end(_WITHIN, text, place)
                sign = text[place : place + 1]
                self._in_string, self._is_escaped = sign != '"', sign == "\\"
            else:
                begin, place = place, _end(_BETWEEN, text, place)
                if not self._depth and text[begin:place].strip():
                    return False
                if not self._take_sign(text[place : place + 1]):
                    return False
            place += 1
        return True

    def _take_sign(self, sign: str) -> bool:
        match sign:
            case "{" | "[" if self._depth or (sign == "{" and not self._is_whole):
                self._depth += 1
            case "}" | "]" if self._depth:
                self._depth -= 1
                self._is_whole = not self._depth
            case '"' if self._depth:
                self._in_string = True
            case _:
                return not sign
        return True


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place
