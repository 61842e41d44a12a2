"""The length of the longest answer that a format allows, from the format alone. Makes no grammar."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from engine.errors import SafelightError
from engine.text.output_format import OutputFormat
from engine.text.pattern_size import longest_match
from engine.text.schema_check import checked_schema
from engine.text.schema_parts import found_at, references_in

MOST = 2**20  # bytes; what may be longer counts as unbounded
ESCAPED = 6  # bytes of a character as \u00XX
FORMATS = {"date": 10, "uuid": 36, "ipv4": 15, "ipv6": 39}  # characters, all ASCII; the other formats have no bound
NO_TEXT = -math.inf  # of a schema that nothing fulfils
PAIR = 2  # ", " between two parts, or ": "


def longest_answer(format: OutputFormat) -> int | None:
    """Returns the bytes of the longest answer, which are at least its tokens; None if no bound is known.

    JSON is counted as its grammar forces it, with one space behind a comma or a colon. A model that lays it out over
    several lines by itself may write more.
    """
    match format.kind:
        case "choices":
            found: float = max(len(choice.encode()) for choice in format.choices)
        case "regex":
            found = longest_match(format.pattern)
        case "json_schema" if format.schema is not None:
            found = _of_schema(format.schema)
        case _:
            return None
    return int(found) if 0 <= found <= MOST else None


def _of_schema(schema: Mapping[str, Any]) -> float:
    try:
        checked = checked_schema(schema, lambda _: "")
    except SafelightError:  # the run says why
        return math.inf
    return _Measuring(checked).follow("#")


class _Measuring:
    """The bytes of the longest text of each schema in one that was checked; infinite if there is no bound."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[str, float] = {}  # by reference

    def follow(self, reference: str) -> float:
        if reference not in self._known:
            schema = found_at(self._root, reference)
            for inner in references_in(schema):
                self.follow(inner)
            self._known[reference] = self.of(schema)
        return self._known[reference]

    def of(self, schema: Any) -> float:
        """Returns the least bound of all keywords, each of which a text must fulfil."""
        if not isinstance(schema, Mapping):
            return math.inf if schema else NO_TEXT
        bounds = [self._of_types(schema), *map(self.of, schema.get("allOf", ()))]
        bounds += [max(map(self.of, schema[name]), default=NO_TEXT) for name in ("anyOf", "oneOf") if name in schema]
        if "const" in schema:
            bounds.append(_of_value(schema["const"]))
        if "enum" in schema:
            bounds.append(max(map(_of_value, schema["enum"]), default=NO_TEXT))
        if "$ref" in schema:
            bounds.append(self._known[schema["$ref"]])
        found = min(bounds)
        return found if found <= MOST else math.inf

    def _of_types(self, schema: Mapping[str, Any]) -> float:
        named = schema.get("type", ())
        types = [named] if isinstance(named, str) else named
        return max((self._of_type(one, schema) for one in types), default=math.inf)

    def _of_type(self, kind: str, schema: Mapping[str, Any]) -> float:
        match kind:
            case "null":
                return len("null")
            case "boolean":
                return len("false")
            case "integer":
                return _of_integer(schema)
            case "string":
                return _of_string(schema)
            case "array":
                return self._of_array(schema)
            case "object":
                return self._of_object(schema)
        return math.inf  # any number of decimals

    def _of_array(self, schema: Mapping[str, Any]) -> float:
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        if isinstance(rest, list):  # as older drafts have it
            first, rest = rest, schema.get("additionalItems", True)
        elif "additionalItems" in schema:
            first = []
        most, sizes = schema.get("maxItems", math.inf), list[float]()
        for one in first[: int(min(len(first), most))]:
            sizes.append(self.of(one))
            if sizes[-1] == NO_TEXT:
                return _joined(sizes[:-1])
        further, size = most - len(sizes), self.of(rest)
        if further > 0 and size > NO_TEXT:
            sizes.append(further * (size + PAIR) - PAIR)
        return _joined(sizes)

    def _of_object(self, schema: Mapping[str, Any]) -> float:
        own, required = schema.get("properties", {}), schema.get("required", ())
        others = schema.get("additionalProperties", True), *schema.get("patternProperties", {}).values()
        if any(self.of(one) > NO_TEXT for one in others):
            return math.inf
        members = {name: self.of(one) for name, one in own.items()}
        if any(members.get(name, NO_TEXT) == NO_TEXT for name in required):
            return NO_TEXT
        return _joined([_of_key(name) + size for name, size in members.items() if size > NO_TEXT])


def _joined(sizes: list[float]) -> float:
    """Returns the bytes of an object or a list of members of these sizes."""
    return 2 + sum(sizes) + PAIR * max(0, len(sizes) - 1)


def _of_key(name: str) -> int:
    return len(json.dumps(name, ensure_ascii=False).encode()) + PAIR


def _of_integer(schema: Mapping[str, Any]) -> float:
    least = [math.ceil(schema["minimum"])] if "minimum" in schema else []
    least += [math.floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    most = [math.floor(schema["maximum"])] if "maximum" in schema else []
    most += [math.ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    if not (least and most):
        return math.inf
    return max(len(str(max(least))), len(str(min(most))))


def _of_string(schema: Mapping[str, Any]) -> float:
    bounds: list[float] = [ESCAPED * schema.get("maxLength", math.inf)]
    if "pattern" in schema:
        bounds.append(longest_match(schema["pattern"], in_json=True))
    if "format" in schema:
        bounds.append(FORMATS.get(schema["format"], math.inf))
    return 2 + min(bounds)


def _of_value(value: Any) -> float:
    """Returns the bytes of a value, which may nest deeply; control characters may be written as \\u00XX."""
    found, waiting = 0.0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            found += _joined([_of_key(name) for name in one])
            waiting += one.values()
        elif isinstance(one, list):
            found += _joined([0] * len(one))
            waiting += one
        elif isinstance(one, str):
            found += 2 + sum(_character_bytes(sign) for sign in one)
        elif one is None or isinstance(one, bool):
            found += len(json.dumps(one))
        else:
            found += _number_bytes(one)
    return found


def _character_bytes(sign: str) -> int:
    if sign < " " or sign == "\x7f":
        return ESCAPED
    return 2 if sign in '"\\' else len(sign.encode())


def _number_bytes(value: float) -> float:
    """Returns the bytes of a number without exponent; grammars read whole numbers as floats of 64 bits, too."""
    try:
        read = float(value)
    except OverflowError:
        return math.inf
    exact = f"{Decimal(repr(read)):f}"
    return max(len(str(value)), len(exact.removesuffix(".0"))) if isinstance(value, int) else len(exact)
