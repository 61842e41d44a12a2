"""Reads tool calls from after ``<|tool_call>``: ``call:NAME{``, the arguments, and the rest up to the end.

After ``<tool_call>`` a call is one JSON object, ``{"name": …, "arguments": …}``, which is read once it is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from engine.errors import SafelightError
from engine.files import parse_json
from engine.text.output_parts import OutputPart, ToolCallPart
from engine.text.tags import JSON_CALL, MARK, THINK, THINK_END
from engine.text.tool_arguments import ToolArguments, ToolSchema

MAX_CALL = 2**20
"""Characters of one call."""
NAME = r"(?P<name>[\w./-]{1,128})"

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_WITHIN = re.compile(r'[^"\\]*')
_BETWEEN = re.compile(r"[\s,:+\-.\dEaeflnrstu]*")  # of numbers, true, false and null, too


def read_call(text: str) -> tuple[str, dict[str, Any]] | None:
    """Returns a call's name and arguments; None if the text is no call. Strings may have line breaks as they are."""
    text = _STRING.sub(lambda string: _CONTROL.sub(lambda sign: f"\\u{ord(sign[0]):04x}", string[0]), text)
    try:
        call = parse_json(text, "a call")
        name, arguments = call["name"], call.get("arguments", call.get("parameters", {}))
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
    match = pattern.match(text, place)
    return match.end() if match else place


MAX_CALLS = 128
_MAX_HEAD = 200  # characters up to the bracket that opens the arguments
_MAX_BEHIND = 200  # characters after the closing bracket

_BRACKET = re.compile(r"[{(]")
_HEAD = re.compile(rf'\s*(?P<call>:?\s*(?:call)?\s*:)?\s*"?{NAME}"?\s*')
_HALF_HEAD = re.compile(r"\s*(?:c|ca|cal|call)?\s*(?::.*)?", re.DOTALL)
_ANOTHER = re.compile(rf"[\s,;)}}\]]*call\s*:\s*{NAME}\s*(?P<bracket>[{{(])")
_LEFT_OVER = " \t\n\r,;)}]"


class ToolCallReader:
    """Reads the calls of one output, one after the other: ``begin``, then ``add`` until it is over or ends.

    A call is read once it is whole.

    Args:
        schemas: the JSON schema of each tool's parameters, by its name.
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.is_over = True  # no call is being read
        self._count = 0  # of calls
        self._schemas = schemas
        self._is_json = self._is_begun = False  # begun: a name and a bracket were written
        self._held: list[str] = []
        self._room = 0  # characters that may still be held
        self._parts: list[OutputPart] = []

    @property
    def is_full(self) -> bool:
        """True if no further call is read."""
        return self._count >= MAX_CALLS

    @property
    def is_in_arguments(self) -> bool:
        """True if the next text belongs to a call's arguments."""
        return self._is_json or self._is_begun

    @property
    def is_json(self) -> bool:
        """True while a call in JSON is being read."""
        return self._is_json and not self.is_over

    def give(self, name: str, arguments: dict[str, Any]) -> None:
        """Adds a call that was read elsewhere."""
        self._give(name, json.dumps(arguments, ensure_ascii=False))

    def new_parts(self) -> list[OutputPart]:
        """Returns the parts read since the last time."""
        parts, self._parts = self._parts, []
        return parts

    def begin(self, *, is_json: bool = False) -> None:
        self.is_over = self._is_begun = False
        self._is_json, self._room = is_json, MAX_CALL
        self._held.clear()

    def add(self, text: str) -> str:
        """Reads on; returns the content that follows if there was no call."""
        if self._room >= 0:
            self._held.append(text)
        self._room -= len(text)
        if self._is_json:
            self.is_over = self._room < 0
        elif not self._is_begun:
            head, is_named = self._head()
            self._is_begun = is_named
            self.is_over = not is_named and len(head) > _MAX_HEAD
        return self._content("".join(self._held)) if self.is_over else ""

    def mark(self) -> str:
        """Reads a string's mark; returns the same as ``add``."""
        return self.add('"' if self._is_json else MARK)

    def end(self, *, by_its_tag: bool) -> str:
        """Ends the call at a tag, its own or another; returns the content before that tag."""
        self.is_over, text = True, "".join(self._held)
        if self._is_json:
            return self._end_json(text)
        if self._is_begun:
            rest = self._read_calls(text, is_whole=self._room >= 0)
            return "" if by_its_tag and len(rest) <= _MAX_BEHIND else self._left_behind(rest)
        if name := self._name(text):
            self._give(name, "{}")
            return ""
        return self._content(text)

    def finish(self) -> str:
        """Ends the text; returns the content at its end."""
        self.is_over, text = True, "".join(self._held)
        if self._is_json:
            return self._end_json(text)
        if self._is_begun:
            return self._left_behind(self._read_calls(text, is_whole=False))
        return "" if _HALF_HEAD.fullmatch(text) else self._content(text)

    def _give(self, name: str, arguments: str, *, is_cut: bool = False) -> None:
        self._parts.append(ToolCallPart(self._count, name, arguments, is_cut))
        self._count += 1

    def _end_json(self, text: str) -> str:
        """Reads a call in JSON; returns it as content, without tags, if it is none."""
        call = read_call(text)
        if call is None:
            return re.sub("|".join(map(re.escape, (THINK, THINK_END, JSON_CALL))), "", text)
        self.give(*call)
        return ""

    def _head(self) -> tuple[str, bool]:
        """Returns the text so far, longer than any head if it is none, and True if a call begins with it."""
        text = "".join(self._held)
        bracket = _BRACKET.search(text)
        if bracket is None:
            return text, False
        is_named = bracket.start() <= _MAX_HEAD and bool(self._name(text[: bracket.start()]))
        return text + " " * _MAX_HEAD + " ", is_named

    def _read_calls(self, text: str, *, is_whole: bool) -> str:
        """Reads a call, and those right behind it; returns the rest of the text."""
        bracket = _BRACKET.search(text)
        assert bracket is not None
        name, opener, place = self._name(text[: bracket.start()]), bracket[0], bracket.end()
        while True:
            schema = ToolSchema(self._schemas.get(name))
            arguments = ToolArguments(text, place, opener, schema, is_whole=is_whole)
            self._give(name, arguments.json, is_cut=not arguments.is_closed)
            another = None if self.is_full else _ANOTHER.match(text, arguments.end)
            if not arguments.is_closed or another is None:
                return text[arguments.end :] if arguments.is_closed else ""
            name, opener, place = another["name"], another["bracket"], another.end()

    def _name(self, head: str) -> str:
        """Returns the name in a head; empty if that is none."""
        match = _HEAD.fullmatch(self._content(head))
        return match["name"] if match and (match["call"] or match["name"] in self._schemas) else ""

    def _left_behind(self, rest: str) -> str:
        """Returns content after the arguments, without surplus brackets."""
        rest = self._content(rest)
        return rest.lstrip(_LEFT_OVER) if rest.strip(_LEFT_OVER + '"') else ""

    @staticmethod
    def _content(text: str) -> str:
        return text.replace(MARK, '"')
