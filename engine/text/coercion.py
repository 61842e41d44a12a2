"""Finds the type of a value without quotation marks: by a tool's JSON schema if it says so, else by its spelling."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
            said = schema.get("type")
            names.update(name.lower() for name in _listed(said) if isinstance(name, str))
            if said is None:
                names.update(_type_of(value) for value in _listed(schema.get("enum"))[:_MAX_SCHEMAS])
            if said is None and "const" in schema:
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
                waiting.append(self._referred(schema["$ref"]))

    def _referred(self, reference: str) -> object:
        found = self._root
        head, *names = reference.split("/", _MAX_SCHEMAS)
        for name in names if head == "#" else ("",):
            found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return found


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else () if value is None else (value,)


def _type_of(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "object")


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
