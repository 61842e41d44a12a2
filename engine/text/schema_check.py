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
from urllib.parse import unquote

from engine.errors import SafelightError, quoted
from engine.text.output_format import check_unicode
from engine.text.pattern_size import check_pattern, in_json
from engine.text.schema_parts import (
    LISTS,
    ONE,
    TOGETHER,
    changed,
    escaped,
    found_at,
    inner_schemas,
    references_in,
    unescaped,
)
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
_HARMLESS = {"uniqueItems": False, "unevaluatedItems": True, "unevaluatedProperties": True, "dependencies": {},
             "dependentRequired": {}, "dependentSchemas": {}}  # fmt: skip
_WITH = {"if": ("then", "else"), "then": ("if",), "else": ("if",), "minContains": ("contains",),
         "maxContains": ("contains",)}  # fmt: skip
"""Those without effect unless one of these stands beside them."""
_REMARKS = ("title", "description", "default", "examples", "$comment", "$id", "$schema", "propertyNames")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_KNOWN = frozenset((*_COUNTS, *_BOUNDS, *LISTS, *_MAPS, *ONE, "type", "enum", "const", "required", "pattern",
                    "format", "multipleOf", "$ref"))  # fmt: skip
_OF_TEXTS = frozenset((*TOGETHER, "enum", "const", "pattern", "minLength", "maxLength", "format", "$ref"))
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_REAL_DAY = rf"^(?:\d{{4}}-(?:0[13-9]|1[0-2])|\d{{4}}-02-(?:[01]\d|2[0-8])|{_LEAP}-02-29)"
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
    check.check_references(found)
    whole = _with_classes(check.counted(unrolled(found)))
    assert isinstance(whole, dict)
    return whole


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
            has_effect = any(one in raw for one in _WITH.get(name, (name,))) and _HARMLESS.get(name) != value
            if name in _REFUSED and (depth or name != "$id") and has_effect:
                raise _wrong(place, f"has {quoted(name)}, which is not supported; leave it out")
            if name in _KNOWN:
                kept = self._keyword(name, value, f"{place}/{escaped(name)}", depth)
                if kept is not None or name == "const":
                    found[name] = kept
        if "propertyNames" in raw:
            self._name(found, raw["propertyNames"], f"{place}/propertyNames", depth)
        self._check_count(found, place)
        patterns = [self._only] if self._only is not None and "pattern" in found else []
        patterns += [_REAL_DAY] if found.get("format") in ("date", "date-time") else []
        if patterns:
            found["allOf"] = [*found.get("allOf", []), *({"pattern": one} for one in patterns)]
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
            value = int(value) if isinstance(value, float) and value.is_integer() else value
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
            return self._reference(value, place)
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
        """Holds the names of an object's members to a list, or to a pattern or lengths.

        Raises:
            SafelightError: they cannot be held to what is asked.
        """
        names = self.schema(raw, place, depth + 1)
        while isinstance(names, dict) and names.keys() == {"$ref"}:
            depth += 1  # which also ends references that lead nowhere
            names = self.schema(self._raw_at(names["$ref"], place), place, depth + 1)
        names = {"enum": []} if names is False else {} if names is True else names
        kinds = names.get("type", "string")
        rest = {key: one for key, one in names.items() if key in _OF_TEXTS} if "string" in kinds else {"enum": []}
        if rest.get("allOf") == [{"pattern": self._only}]:  # what ``schema`` has added
            del rest["allOf"]
        if not rest:
            return
        least, most = rest.pop("minLength", 0), rest.pop("maxLength", MOST_COUNT)
        lists = [rest.pop("enum")] if "enum" in rest else []
        lists += [[rest.pop("const")]] if "const" in rest else []

        def fits(name: Any) -> bool:
            return isinstance(name, str) and least <= len(name) <= most and all(name in one for one in lists)

        own, others = found.get("properties", {}), found.get("additionalProperties", True)
        listed = [name for name in lists[0] if fits(name)] if lists else None
        pattern = rest.pop("pattern", None) if (least, most) == (0, MOST_COUNT) and listed is None else None
        patterns = found.pop("patternProperties", {})
        if (
            rest
            or (patterns and listed != [])
            or (pattern and own)
            or (listed is None and own and not isinstance(others, bool))
        ):
            raise _wrong(place, "cannot be held here; give a list, a pattern or lengths alone, or leave it out")
        found["properties"] = {name: one for name, one in own.items() if pattern or fits(name)}
        if listed is not None and others is not False:
            found["properties"] |= {name: others for name in listed if name not in own}
        elif listed is None and others is not False:
            pattern = pattern or f"^[\\s\\S]{{{least},{'' if most == MOST_COUNT else most}}}$"
            check_pattern(pattern, f"the schema's {_short(place)}")
            found["patternProperties"] = {pattern: others}
        found["additionalProperties"] = False

    def _check_count(self, found: Mapping[str, Any], place: str) -> None:
        """Checks that a count of members is not met by the same name twice."""
        is_free = found.get("additionalProperties", True) is not False or found.get("patternProperties")
        least, kinds = found.get("minProperties", 0), found.get("type", "object")
        if is_free and "object" in kinds and least > 1 + len(set(found.get("required", ()))):
            raise _wrong(
                f"{place}/minProperties",
                f"is {least}, and an answer could give one name twice; list the names in properties and required",
            )

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

    def _reference(self, value: Any, place: str) -> str:
        """Returns a reference as the path that it stands for."""
        if not isinstance(value, str):
            raise _wrong(place, f"must be a text, not {quoted(value)}")
        if not value.startswith("#"):
            raise _wrong(place, f"is {quoted(value)}; only parts of the schema itself can be referred to, with #/…")
        if value != "#" and not value.startswith("#/"):
            raise _wrong(place, f"is {quoted(value)}; write the reference as #/$defs/NAME")
        path = unquote(value)
        self._references.setdefault(path, place)
        return path

    def check_references(self, whole: dict[str, Any]) -> None:
        """Checks that each reference leads to a schema; what stands under keywords of others is put into ``whole``."""
        done = set[str]()
        while new := self._references.keys() - done:
            for reference in sorted(new):
                done.add(reference)
                if reference[1:] not in self._places or "propertyNames" in reference.split("/"):
                    raw = self._raw_at(reference, self._references[reference])
                    *names, last = (unescaped(name) for name in reference.split("/")[1:])
                    here: Any = whole
                    for name in names:
                        here = here[int(name)] if isinstance(here, list) else here.setdefault(name, {})
                    here[last] = self.schema(raw, reference[1:], 1)
                try:
                    found_at(whole, reference)
                except (LookupError, TypeError):  # ``propertyNames`` has left it out
                    raise self._nothing_at(reference, self._references[reference]) from None

    def _raw_at(self, reference: str, place: str) -> Any:
        """Returns the schema at a reference as it came, under a known keyword or one of others."""
        found, kind = self._root, "schema"
        for name in reference.split("/")[1:]:
            if kind == "schema":
                kind = "part" if name in (*_MAPS, *LISTS) else "schema" if name in ONE else "others"
                kind = "" if kind == "others" and name in (*_REMARKS, *_REFUSED, *_KNOWN) else kind
            elif kind == "part":
                kind = "schema"
            key = unescaped(name)
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                kind = ""
            if not kind:
                break
        if kind not in ("schema", "others") or not isinstance(found, Mapping | bool):
            raise self._nothing_at(reference, place)
        return found

    @staticmethod
    def _nothing_at(reference: str, place: str) -> SafelightError:
        return _wrong(place, f"refers to {quoted(reference)}, where there is no schema")

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


def _with_classes(schema: Any) -> Any:
    """Returns a schema whose patterns a grammar holds in strings of JSON; see ``in_json``."""
    if not isinstance(schema, Mapping):
        return schema
    found = changed(schema, _with_classes)
    if "pattern" in found:
        found["pattern"] = in_json(found["pattern"])
    if "patternProperties" in found:
        found["patternProperties"] = {in_json(name): one for name, one in found["patternProperties"].items()}
    if "$defs" in found:
        found["$defs"] = {name: _with_classes(one) for name, one in found["$defs"].items()}
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
