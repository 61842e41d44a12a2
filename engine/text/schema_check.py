"""Checks a JSON schema from outside: returns it for a grammar, or raises an error that names the unsupported place.

Only keywords that a grammar can hold are let through. Others that restrict an answer are refused, and
those that only describe it are left out, as are formats that are not known. A place is written as a JSON pointer:
``/properties/name``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from engine.errors import SafelightError, quoted
from engine.text.output_format import check_unicode
from engine.text.pattern_size import check_pattern
from engine.text.schema_parts import LISTS, ONE, TOGETHER, escaped, found_at, inner_schemas, references_in
from engine.text.schema_recursion import unrolled

MOST_SCHEMAS, MOST_DEPTH = 2_000, 32  # schemas in a schema, and their nesting
MOST_REFERENCES = 48  # that follow one another
MOST_COUNT = 100_000  # required characters, items or members; no answer has more
MOST_DIVISOR = 10_000
"""Bound of multipleOf, without its decimal point. A grammar has a state for each remainder, and for each combination of
remainders if several apply to one value."""
MOST_NUMBER = 2**53  # of a bound; JSON readers keep whole numbers up to it
LEAST_NUMBER = 1e-15  # of a bound, above 0

FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"))
"""The formats that texts are held to; any other is a remark, as JSON Schema has it."""
_REFUSED = frozenset((
    "not", "if", "then", "else", "contains", "minContains", "maxContains", "uniqueItems", "dependentRequired",
    "dependentSchemas", "dependencies", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef",
    "$id", "disallow", "divisibleBy", "extends",
))  # fmt: skip
_HARMLESS = {"uniqueItems": False, "minContains": 0, "unevaluatedItems": True, "unevaluatedProperties": True}
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_KNOWN = frozenset((*_COUNTS, *_BOUNDS, *LISTS, *_MAPS, *ONE, "type", "enum", "const", "required", "pattern",
                    "format", "multipleOf", "$ref"))  # fmt: skip
_TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")

Lacks = Callable[[str], str]
"""Returns the first character of a text that the model cannot write; empty if there is none."""


def checked_schema(schema: Mapping[str, Any], lacks: Lacks, only: str | None = None) -> dict[str, Any]:
    """Returns the schema without parts that do not affect the answer.

    Args:
        only: a pattern that all strings with a pattern must also match; None if the model can write any text.

    Raises:
        SafelightError: an unsupported keyword or reference, a value that its keyword does not take, a text that the
            model cannot write, or a schema that is too large.
    """
    check = _Check(schema, lacks, only)
    found = check.schema(schema, "", 0)
    assert isinstance(found, dict)
    check.check_references()
    return check.counted(unrolled(found))


class _Check:
    def __init__(self, root: Mapping[str, Any], lacks: Lacks, only: str | None) -> None:
        self._root: Any = root
        self._lacks, self._only = lacks, only
        self._places: set[str] = set()  # of all schemas
        self._references: dict[str, str] = {}  # each with its first place
        self._remainders: dict[str, int] = {}  # of each reference's schema

    def schema(self, raw: Any, place: str, depth: int) -> dict[str, Any] | bool:
        self._places.add(place)
        if len(self._places) > MOST_SCHEMAS:
            raise SafelightError(f"the schema has more than {MOST_SCHEMAS:,} parts; make it smaller")
        if depth > MOST_DEPTH:
            raise SafelightError(f"the schema is deeper than {MOST_DEPTH} levels at {_short(place)}; make it flatter")
        if isinstance(raw, bool):
            return raw
        if not isinstance(raw, Mapping):
            raise _wrong(place, f"must be a schema, not {quoted(raw)}")
        found: dict[str, Any] = {}
        for name, value in raw.items():
            if name in _REFUSED and (depth or name != "$id") and _HARMLESS.get(name) is not value:
                raise _wrong(place, f"has {quoted(name)}, which is not supported; leave it out")
            if name in _KNOWN:
                kept = self._keyword(name, value, f"{place}/{escaped(name)}", depth)
                if kept is not None or name == "const":
                    found[name] = kept
        if "propertyNames" in raw:
            self._name(found, raw["propertyNames"], f"{place}/propertyNames", depth)
        if self._only is not None and "pattern" in found:
            found["allOf"] = [*found.get("allOf", []), {"pattern": self._only}]
        return found

    def _keyword(self, name: str, value: Any, place: str, depth: int) -> Any:
        if name in ONE and not (name == "items" and isinstance(value, list)):
            return self.schema(value, place, depth + 1)
        if name in LISTS or name == "items":
            return [self.schema(one, f"{place}/{index}", depth + 1) for index, one in enumerate(_listed(value, place))]
        if name in _MAPS:
            return self._members(name, value, place, depth)
        if name in _COUNTS:
            most = MOST_COUNT if name.startswith("min") else 2**31 - 1
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise _wrong(place, f"must be a whole number from 0 to {most}, not {quoted(value)}")
        elif name in _BOUNDS or name == "multipleOf":
            return _number(name, value, place)
        elif name == "type":
            for one in value if isinstance(value, list) and value else [value]:
                if one not in _TYPES:
                    raise _wrong(place, f"must be one of {', '.join(_TYPES)}, not {quoted(one)}")
        elif name in ("enum", "required"):
            for one in _listed(value, place):
                if name == "required" and not isinstance(one, str):
                    raise _wrong(place, f"must be a list of names, not {quoted(value)}")
                self._writable(one, place)
        elif name == "const":
            self._writable(value, place)
        elif name in ("pattern", "format"):
            if not isinstance(value, str):
                raise _wrong(place, f"must be a text, not {quoted(value)}")
            check_unicode(f"the schema's {_short(place)}", value)
            if name == "format":
                return value if value in FORMATS else None
            check_pattern(value, f"the schema's {place}")
        elif name == "$ref":
            self._reference(value, place)
        return value

    def _members(self, name: str, value: Any, place: str, depth: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _wrong(place, f"must be an object, not {quoted(value)}")
        found = {}
        for key, one in value.items():
            here = f"{place}/{escaped(key)}"
            if name == "properties":
                self._writable(key, here)
            elif name == "patternProperties":
                check_unicode(f"the schema's {_short(here)}", key)
                check_pattern(key, f"the schema's {_short(here)}")
            found[key] = self.schema(one, here, depth + 1)
        return found

    def _name(self, found: dict[str, Any], raw: Any, place: str, depth: int) -> None:
        """Holds the names of an object's members that are not described to a list or a pattern, if they have one."""
        names, others = self.schema(raw, place, depth + 1), found.get("additionalProperties", True)
        if not isinstance(names, dict) or others is False or "patternProperties" in found:
            return
        if "enum" in names:
            own = found.get("properties", {})
            for name in names["enum"]:
                if isinstance(name, str):
                    own = {**own, name: own.get(name, others)}
            found |= {"properties": own, "additionalProperties": False}
        elif "pattern" in names:
            found |= {"patternProperties": {names["pattern"]: others}, "additionalProperties": False}

    def _writable(self, value: Any, place: str) -> None:
        """Checks that the model can write a value."""
        if isinstance(value, str):
            check_unicode(f"the schema's {_short(place)}", value)
            lacking = self._lacks(value)
            if lacking:
                raise _wrong(place, f"has {quoted(value)}; this model cannot write {quoted(lacking)}")
        elif isinstance(value, Mapping):
            for key, one in value.items():
                self._writable(key, place)
                self._writable(one, place)
        elif isinstance(value, list):
            for one in value:
                self._writable(one, place)
        elif isinstance(value, float) and not math.isfinite(value):
            raise _wrong(place, f"has {quoted(value)}, which is not JSON")

    def _reference(self, value: Any, place: str) -> None:
        if not isinstance(value, str):
            raise _wrong(place, f"must be a text, not {quoted(value)}")
        if not value.startswith("#"):
            raise _wrong(place, f"is {quoted(value)}; only parts of the schema itself can be referred to, with #/…")
        if value != "#" and not value.startswith("#/"):
            raise _wrong(place, f"is {quoted(value)}; write the reference as #/$defs/NAME")
        self._references.setdefault(value, place)

    def check_references(self) -> None:
        """Checks that each reference leads to a schema."""
        for reference, place in self._references.items():
            if reference[1:] not in self._places or "propertyNames" in reference.split("/"):
                raise _wrong(place, f"refers to {quoted(reference)}, where there is no schema")

    def counted(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Returns a schema without recursion, after its remainders were counted."""
        self._root = schema
        for name in schema.get("$defs", {}):
            self._follow(f"#/$defs/{name}", 0)
        self.count_remainders(schema, "")
        return schema

    def _follow(self, reference: str, depth: int) -> None:
        if reference in self._remainders:
            return
        if depth > MOST_REFERENCES:
            raise SafelightError(f"the schema's references are deeper than {MOST_REFERENCES} levels; make it flatter")
        target = found_at(self._root, reference)
        for inner in references_in(target):
            self._follow(inner, depth + 1)
        self._remainders[reference] = self.count_remainders(target, reference[1:])

    def count_remainders(self, schema: Any, place: str) -> int:
        """Returns the most remainders that a grammar may count for a number anywhere in a schema.

        Remainders of schemas for one value multiply. So do those of alternatives, which are counted in parallel.

        Raises:
            SafelightError: there are more than ``MOST_DIVISOR``.
        """
        if not isinstance(schema, Mapping):
            return 1
        counts: dict[str, list[int]] = {}
        for name, where, inner in inner_schemas(schema):
            counts.setdefault(name, []).append(self.count_remainders(inner, f"{place}/{where}"))
        found = _digits(schema["multipleOf"]) if "multipleOf" in schema else 1
        found = max(found, *(count for name in counts if name not in TOGETHER for count in counts[name]), 1)
        found *= math.prod(count for name in TOGETHER for count in counts.get(name, ()))
        found *= self._remainders[schema["$ref"]] if "$ref" in schema else 1
        if found > MOST_DIVISOR:
            raise _wrong(place, f"asks for multiples of numbers whose product is above {MOST_DIVISOR}; ask for fewer")
        return found


def _number(name: str, value: Any, place: str) -> float:
    """Returns a number; a bound that is too large for readers of JSON is moved to the largest that is not."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise _wrong(place, f"must be a number, not {quoted(value)}")
    if name in _BOUNDS and abs(value) > MOST_NUMBER and (value > 0) == name.lower().endswith("maximum"):
        return MOST_NUMBER if value > 0 else -MOST_NUMBER
    if abs(value) > MOST_NUMBER:
        raise _wrong(place, f"must be a number within {MOST_NUMBER}, not {quoted(value)}")
    if value and abs(value) < LEAST_NUMBER:
        raise _wrong(place, f"is {quoted(value)}; numbers so close to 0 are not supported")
    if name == "multipleOf" and (value <= 0 or _digits(value) > MOST_DIVISOR):
        raise _wrong(
            place, f"must be above 0 and of few digits, at most {MOST_DIVISOR} without point, not {quoted(value)}"
        )
    return value


def _digits(divisor: float) -> int:
    """Returns a number without its decimal point, which is its number of remainders as a decimal number."""
    _, digits, exponent = Decimal(repr(divisor)).as_tuple()
    assert isinstance(exponent, int), "it is finite"
    whole = int("".join(map(str, digits)))
    while exponent < 0 and whole % 10 == 0:
        whole, exponent = whole // 10, exponent + 1
    return whole * int(10 ** max(0, exponent))


def _listed(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(place, f"must be a list, not {quoted(value)}")
    return value


def _short(place: str, most: int = 160) -> str:
    return place if len(place) <= most else f"{place[:most]}…"


def _wrong(place: str, what: str) -> SafelightError:
    where = f"the schema's {_short(place)}" if place else "the schema"
    return SafelightError(f"{where} {what}")
