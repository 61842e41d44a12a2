"""Converts a tool call's arguments as the model writes them, ``key:VALUE,…}``, to JSON.

VALUE is a string between marks (``<|"|>``; plain ``"`` is read, too), a bare word, number or text, ``{…}`` or ``[…]``.
The type of a value without marks is found by the tool's JSON schema if it says so, else by its spelling.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.text.schema_parts import KINDS, looked_up
from engine.text.tags import MARK

MAX_DIGITS = 300  # of a number; longer ones are strings
_SCALARS = frozenset(("string", "integer", "number", "boolean", "null"))
_MAX_SCHEMAS = 64  # that are examined for one value
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_EXACT = 2**53  # whole numbers that a double holds


class ToolSchema:
    """The JSON schema of a tool's parameters, or of a part of them; it allows everything that it does not mention."""

    def __init__(self, schema: object, root: object = None) -> None:
        self._root = schema if root is None else root
        self._schema = schema

    def member(self, key: str) -> ToolSchema:
        """Returns the schema of an object's member."""
        more: object = None
        for schema in self._all():
            properties = schema.get("properties")
            if isinstance(properties, Mapping) and key in properties:
                return ToolSchema(properties[key], self._root)
            more = more or schema.get("additionalProperties")
        return ToolSchema(more, self._root)

    def item(self, place: int) -> ToolSchema:
        """Returns the schema of a list's item."""
        for schema in self._all():
            first = schema.get("prefixItems", schema.get("items"))
            if isinstance(first, list) and place < len(first):
                return ToolSchema(first[place], self._root)
            if isinstance(schema.get("items"), Mapping):
                return ToolSchema(schema["items"], self._root)
        return ToolSchema(None, self._root)

    def types(self) -> frozenset[str]:
        """Returns the names of the types that a value may have; empty if the schema names none."""
        names: set[str] = set()
        for schema in self._all():
            declared = schema.get("type")
            names.update(name.lower() for name in _listed(declared) if isinstance(name, str))
            if declared is None:
                names.update(_type_of(value) for value in _listed(schema.get("enum"))[:_MAX_SCHEMAS])
            if declared is None and "const" in schema:
                names.add(_type_of(schema["const"]))
        return frozenset(names)

    def takes_strings(self) -> bool:
        """Returns True if a string is allowed, or no other scalar value that a string could stand for."""
        types = self.types()
        return not types or "string" in types or not types & _SCALARS

    def _all(self) -> Iterator[Mapping[str, Any]]:
        """Yields the schema and those that it is composed of."""
        waiting, looked = [self._schema], 0
        while waiting and looked < _MAX_SCHEMAS:
            schema = waiting.pop(0)
            looked += 1
            if not isinstance(schema, Mapping):
                continue
            yield schema
            for name in ("anyOf", "oneOf", "allOf"):
                waiting += _listed(schema.get(name))[:_MAX_SCHEMAS]
            if isinstance(schema.get("$ref"), str):
                waiting.append(looked_up(self._root, schema["$ref"]))


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else () if value is None else (value,)


def _type_of(value: object) -> str:
    return "null" if value is None else KINDS.get(type(value), "object")


def coerced(text: str, types: frozenset[str]) -> str:
    """Returns the JSON of a value that is written without quotation marks.

    ``null`` is null whatever the schema says, since strings have marks. A value that does not fit the types keeps its
    apparent type, so that the recipient of the call sees it.
    """
    if text == "null" or (text in ("None", "nil") and types and "string" not in types):
        return "null"
    word = text.lower()
    if word in ("true", "false") and ("boolean" in types or not types or "string" not in types):
        return word
    if not types or types & {"integer", "number"} or "string" not in types:
        number = _number(text, whole="number" not in types and "integer" in types)
        if number:
            return number
    return json.dumps(text, ensure_ascii=False)


def _number(text: str, *, whole: bool) -> str:
    """Returns a number as JSON writes it; empty if it is none."""
    if len(text) > MAX_DIGITS or not _NUMBER.fullmatch(text):
        return ""
    if text.lstrip("+-").isdecimal():
        return str(int(text))
    value = float(text)
    if not math.isfinite(value):
        return ""
    return str(int(value)) if whole and value.is_integer() and abs(value) < _EXACT else repr(value)


MAX_DEPTH = 32
"""Nested objects and lists."""

_CLOSERS = {"{": "}", "[": "]", "(": ")}"}
_KEY_ENDS = re.compile(rf'[:=,{{}}\])"]|{re.escape(MARK)}')
_VALUE_ENDS = re.compile(r"[,}\])]")
_BARE_ENDS = re.compile(r"[,{}\[\]()]")
_ANY_MARK = rf"\\?{re.escape(MARK)}"
_QUOTED = re.compile(rf'(?:{_ANY_MARK}|[^"\\<]++|<|\\.)*+', re.DOTALL)


@dataclass
class _Level:
    """An object or a list that is not closed yet; ``schema`` is that of its content."""

    opener: str
    schema: ToolSchema
    is_left_out: bool = False
    keys: set[str] = field(default_factory=set)
    count: int = 0  # of its entries


class ToolArguments:
    """The arguments of one call, read from after their opening bracket.

    Malformed parts are left out: an entry without a value, a second entry of one key with everything in it, text
    between a value and the next comma. A closing bracket also closes what is open inside; one that closes nothing is
    text.

    Args:
        place: behind the ``opener``, "{" or "(".
        schema: of the tool's parameters.
        is_whole: the model wrote the end of the call behind the text, which completes what is open; else the JSON may
            be only the beginning of an object.
    """

    def __init__(self, text: str, place: int, opener: str, schema: ToolSchema, *, is_whole: bool) -> None:
        self._text, self._is_whole = text, is_whole
        self.end = place  # behind what was read
        self.is_too_deep = False
        self._json = ["{"]
        self._levels = [_Level(opener, schema)]
        self._state: Literal["key", "value", "behind"] = "key"
        self._held, self._is_named = "", False  # a key, and whether it is complete
        self._key, self._schema, self._is_left_out = "", schema, False  # of the current value
        while self._levels and not self.is_too_deep and self.end < len(self._text):
            self._step()
        while is_whole and self._levels and not self.is_too_deep:
            self._pop()

    @property
    def json(self) -> str:
        return "".join(self._json)

    @property
    def is_closed(self) -> bool:
        return not self._levels

    def _step(self) -> None:
        match self._state:
            case "key":
                self._read_key()
            case "value":
                self._read_value()
            case "behind":
                sign, _ = self._until(_VALUE_ENDS)
                if sign == ",":
                    self._next()
                else:
                    self._closes(sign)

    def _until(self, ends: re.Pattern[str]) -> tuple[str, str]:
        """Reads up to the next sign; returns that, empty if there is none, and the text before it."""
        match = ends.search(self._text, self.end)
        start, self.end = self.end, len(self._text) if match is None else match.end()
        return ("", self._text[start:]) if match is None else (match[0], self._text[start : match.start()])

    def _delimited(self, mark: str) -> tuple[str, bool]:
        """Reads the text up to a closing mark; returns it, and whether it has an end."""
        start = self.end
        if mark == MARK:
            end = self._text.find(MARK, start)
        else:
            quoted = _QUOTED.match(self._text, start)
            end = quoted.end() if quoted is not None and quoted.end() < len(self._text) else -1
            end = end if self._text[end : end + 1] == mark else -1
        if end < 0:
            self.end = len(self._text)
            return self._text[start:], self._is_whole
        self.end = end + len(mark)
        return self._text[start:end], True

    def _read_key(self) -> None:
        level = self._levels[-1]
        sign, before = self._until(_KEY_ENDS)
        self._held += "" if self._is_named else before
        is_blank = not self._held.strip()
        if sign in ('"', MARK) and is_blank and not self._is_named:
            raw, _ = self._delimited(sign)
            self._held = raw if sign == MARK else _without_escapes(raw)
            self._is_named = True
        elif sign == ":" or (sign == "=" and level.opener == "("):
            self._key = self._held.strip()
            self._schema, self._state = level.schema.member(self._key), "value"
        elif sign == "{" and level.opener == "(" and is_blank:
            level.opener = sign  # call:NAME({…})
        elif sign == ",":
            self._next()
        elif not self._closes(sign) and not self._is_named:
            self._held += '"' if sign == MARK else sign

    def _read_value(self) -> None:
        sign = MARK if self._text.startswith(MARK, self.end) else self._text[self.end]
        if sign not in ("{", "[", ",", MARK, '"') and not sign.isspace() and not self._would_close(sign):
            self._read_bare()
            return
        self.end += len(sign)
        if sign in ("{", "["):
            self._push(sign)
        elif sign == ",":
            self._next()
        elif sign in (MARK, '"'):
            self._read_string(sign)
        else:
            self._closes(sign)

    def _read_string(self, mark: str) -> None:
        self._begin()
        raw, has_end = self._delimited(mark)
        text = raw if mark == MARK else _without_escapes(raw)
        if self._schema.takes_strings() and (has_end or mark == MARK):
            self._write(_string(text) if has_end else _string(text)[:-1])
        elif has_end:
            self._write(coerced(text.strip(), self._schema.types()))

    def _read_bare(self) -> None:
        self._begin()
        start, inner, self.end = self.end, 0, len(self._text)
        for match in _BARE_ENDS.finditer(self._text, start):
            if match[0] in "{[(":
                inner += 1
            elif inner and match[0] != ",":
                inner -= 1
            elif not inner and (match[0] == "," or self._would_close(match[0])):
                self.end = match.start()
                break
        if self.end < len(self._text) or self._is_whole:
            text = self._text[start : self.end].replace(MARK, '"')
            self._write(coerced(text.strip(), self._schema.types()))

    def _begin(self) -> None:
        """Begins a value: in an object that of a key, in a list the next item."""
        level = self._levels[-1]
        self._state = "behind"
        self._is_left_out = level.is_left_out or self._key in level.keys
        if self._is_left_out:
            return
        self._write(", " if level.count else "")
        level.count += 1
        if level.opener != "[":
            level.keys.add(self._key)
            self._write(f"{_string(self._key)}: ")

    def _write(self, text: str) -> None:
        if not self._is_left_out:
            self._json.append(text)

    def _next(self) -> None:
        """Begins an entry or an item."""
        level = self._levels[-1]
        self._held, self._is_named, self._state = "", False, "key"
        if level.opener == "[":
            self._key, self._schema, self._state = "", level.schema.item(level.count), "value"

    def _push(self, opener: str) -> None:
        if len(self._levels) == MAX_DEPTH:
            self.is_too_deep = True
            return
        self._begin()
        self._write(opener)
        self._levels.append(_Level(opener, self._schema, self._is_left_out))
        self._next()

    def _pop(self) -> None:
        level = self._levels.pop()
        self._is_left_out = level.is_left_out
        self._write("]" if level.opener == "[" else "}")

    def _would_close(self, sign: str) -> bool:
        return bool(sign) and any(sign in _CLOSERS[level.opener] for level in self._levels)

    def _closes(self, sign: str) -> bool:
        """Closes what a sign closes, with all that is open inside; False if it closes nothing."""
        if not self._would_close(sign):
            return False
        while sign not in _CLOSERS[self._levels[-1].opener]:
            self._pop()
        self._pop()
        self._state = "behind"
        return True


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _without_escapes(text: str) -> str:
    """Returns the content of a JSON string; unchanged if it is none."""
    text = re.sub(_ANY_MARK, '\\\\"', text)
    try:
        unescaped = str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # half a character has no UTF-8
