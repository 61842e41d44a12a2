"""Converts a tool call's arguments as the model writes them, ``key:VALUE,…}``, to JSON that grows as they arrive.

VALUE is a string between marks (``<|"|>``; plain ``"`` is read, too), a bare word, number or text, ``{…}`` or ``[…]``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Literal

from engine.text.coercion import ToolSchema, coerced

_BRACKETS = {"{": "}", "[": "]"}


@dataclass
class _Open:
    """An object or a list that is not closed yet."""

    opener: str
    is_left_out: bool
    keys: set[str] = field(default_factory=set)
    count: int = 0  # of its entries


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

    @property
    def count(self) -> int:
        """The number of entries in the innermost object or list."""
        return self._open[-1].count

    def begin(self, key: str = "") -> None:
        """Begins a value: in an object that of a key, in a list the next item."""
        level = self._open[-1]
        self._is_left_out = level.is_left_out or key in level.keys
        if self._is_left_out:
            return
        comma = ", " if level.count else ""
        level.count += 1
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


MOST_DEPTH = 32
"""Nested objects and lists."""

_CLOSERS = {"{": "}", "[": "]", "(": ")}"}
_KEY_ENDS = re.compile(r'[:=,{}\])"]')
_VALUE_ENDS = re.compile(r"[,}\])]")
_BARE_ENDS = re.compile(r"[,{}\[\]()]")
_QUOTE_ENDS = re.compile(r'["\\]')
_State = Literal[
    "key", "marked key", "quoted key", "behind key", "value", "bare", "string", "quoted", "escape", "behind value"
]


class ToolArguments:
    """Reads the arguments of one call, from after their opening bracket.

    Malformed parts are left out: an entry without a value, a second entry of one key, text between a value and the next
    comma. A closing bracket also closes what is open inside; one that closes nothing is text.

    Args:
        opener: "{" or "(".
        schema: of the tool's parameters.
    """

    def __init__(self, opener: str, schema: ToolSchema) -> None:
        self.is_closed = False  # the closing bracket was read
        self.is_too_deep = False
        self._levels = [(opener, schema)]  # open brackets, each with the schema of its content
        self._state: _State = "key"
        self._held: list[str] = []  # of a key, or of a value that is output only at its end
        self._has_text = False  # the held text is more than white space
        self._key = ""
        self._schema = schema  # of the next value, or the current one
        self._inner = 0  # open brackets in a bare text
        self._is_string = True  # text between marks is output as it arrives
        self._json = GrowingJson()
        self._json.open("{")

    def take(self) -> str:
        """Returns the JSON since the last call."""
        return self._json.take()

    def add(self, text: str) -> str:
        """Reads on; returns the text after the arguments, or after the place where they are too deep."""
        place = 0
        while place < len(text) and not self.is_closed and not self.is_too_deep:
            place = self._step(text, place)
        return text[place:]

    def mark(self) -> None:
        """Reads a string's mark."""
        match self._state:
            case "key" if not self._has_text:
                self._clear()
                self._state = "marked key"
            case "marked key":
                self._state = "behind key"
            case "value":
                self._begin("string")
                self._is_string = self._schema.takes_strings()
                if self._is_string:
                    self._json.write('"')
            case "string":
                self._end_value()
            case "key" | "bare":
                self._hold('"')
            case "quoted" | "escape":
                self._hold('"' if self._state == "escape" else '\\"')
                self._state = "quoted"

    def close(self) -> None:
        """Ends the call: closes all that is open."""
        if self._state in ("bare", "string", "quoted", "escape"):
            self._end_value()
        while self._levels:
            self._pop()
        self.is_closed = True

    def _step(self, text: str, place: int) -> int:
        """Reads on from a place; returns the next one."""
        match self._state:
            case "key" | "behind key":
                return self._in_key(text, place)
            case "value":
                return self._at_value(text, place)
            case "quoted key":
                return self._in_quoted_key(text, place)
            case "bare":
                return self._in_bare(text, place)
            case "behind value":
                return self._behind_value(text, place)
            case "quoted":
                return self._in_quotes(text, place)
            case "escape":
                self._held.append(text[place])
                self._state = "quoted"
                return place + 1
            case "string" if self._is_string:
                self._json.write_string(text[place:])
            case "string" | "marked key":
                self._held.append(text[place:])
        return len(text)

    def _in_key(self, text: str, place: int) -> int:
        sign, place = self._hold_until(_KEY_ENDS, text, place)
        opener, schema = self._levels[-1]
        if sign == ":" or (sign == "=" and opener == "("):
            self._key = _without_quotes(self._held_text())
            self._schema = schema.member(self._key)
            self._state = "value"
        elif sign == '"' and self._state == "key" and not self._has_text:
            self._clear()
            self._hold(sign)
            self._state = "quoted key"
        elif sign == "{" and opener == "(" and not self._has_text:
            self._levels[-1] = (sign, schema)  # call:NAME({…})
        elif sign == ",":
            self._next()
        elif not self._closes(sign):
            self._hold(sign)
        return place

    def _in_quoted_key(self, text: str, place: int) -> int:
        if len(self._held) > 1 and self._held[-1] == "\\":
            self._held[-1] += text[place]
            return place + 1
        sign, place = self._hold_until(_QUOTE_ENDS, text, place)
        self._hold(sign)
        if sign == '"':
            self._state = "behind key"
        return place

    def _at_value(self, text: str, place: int) -> int:
        sign = text[place]
        if sign in "{[":
            self._push(sign)
        elif sign == '"':
            self._begin("quoted")
        elif sign == ",":
            self._next()
        elif not sign.isspace() and not self._closes(sign):
            self._begin("bare")
            self._inner = 0
            return place
        return place + 1

    def _in_bare(self, text: str, place: int) -> int:
        sign, place = self._hold_until(_BARE_ENDS, text, place)
        if sign and sign in "{[(":
            self._inner += 1
        elif sign and sign in "}])" and self._inner:
            self._inner -= 1
        elif not self._inner and (sign == "," or self._would_close(sign)):
            self._end_value()
            return place - 1
        self._hold(sign)
        return place

    def _behind_value(self, text: str, place: int) -> int:
        sign, place = self._hold_until(_VALUE_ENDS, text, place)
        if sign == ",":
            self._next()
        else:
            self._closes(sign)
        return place

    def _in_quotes(self, text: str, place: int) -> int:
        sign, place = self._hold_until(_QUOTE_ENDS, text, place)
        if sign == "\\":
            self._hold(sign)
            self._state = "escape"
        elif sign:
            self._end_value()
        return place

    def _hold(self, text: str) -> None:
        if self._state not in ("behind key", "behind value"):
            self._held.append(text)
            self._has_text = self._has_text or bool(text.strip())

    def _hold_until(self, ends: re.Pattern[str], text: str, place: int) -> tuple[str, int]:
        """Holds the text before the next sign; returns that sign, empty if there is none, and the place after it."""
        found = ends.search(text, place)
        if found is None:
            self._hold(text[place:])
            return "", len(text)
        self._hold(text[place : found.start()])
        return found[0], found.end()

    def _clear(self) -> None:
        self._held.clear()
        self._has_text = False

    def _held_text(self) -> str:
        return "".join(self._held).strip()

    def _next(self) -> None:
        """Begins an entry or an item."""
        opener, schema = self._levels[-1]
        self._clear()
        if opener == "[":
            self._key, self._schema, self._state = "", schema.item(self._json.count), "value"
        else:
            self._state = "key"

    def _begin(self, state: _State) -> None:
        self._json.begin(self._key)
        self._clear()
        self._state = state

    def _end_value(self) -> None:
        """Ends the current value, complete or not."""
        held, is_quoted = "".join(self._held), self._state in ("quoted", "escape")
        text = _without_escapes(held) if is_quoted else held
        if self._state == "string" and self._is_string:
            self._json.write('"')
        elif is_quoted and self._schema.takes_strings():
            self._json.write(_string(text))
        else:
            self._json.write(coerced(text.strip(), self._schema.types()))
        self._clear()
        self._state = "behind value"

    def _push(self, opener: str) -> None:
        if len(self._levels) == MOST_DEPTH:
            self.is_too_deep = True
            return
        self._json.begin(self._key)
        self._json.open(opener)
        self._levels.append((opener, self._schema))
        self._next()

    def _pop(self) -> None:
        self._json.close()
        self._levels.pop()

    def _would_close(self, sign: str) -> bool:
        return bool(sign) and any(sign in _CLOSERS[opener] for opener, _ in self._levels)

    def _closes(self, sign: str) -> bool:
        """Closes what a sign closes, with all that is open inside; False if it closes nothing."""
        if not self._would_close(sign):
            return False
        while sign not in _CLOSERS[self._levels[-1][0]]:
            self._pop()
        self._pop()
        self._state = "behind value"
        self.is_closed = not self._levels
        return True


def _without_quotes(key: str) -> str:
    return _without_escapes(key[1:-1]) if len(key) > 1 and key[0] == key[-1] == '"' else key


def _without_escapes(text: str) -> str:
    """Returns the content of a JSON string; unchanged if it is none."""
    try:
        found = str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a character has no UTF-8
