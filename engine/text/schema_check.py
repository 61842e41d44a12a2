"""Prepares a JSON schema from outside for a grammar: drops what only describes, refuses what a grammar would ignore.

The library that makes grammars checks the values of keywords, and its process bounds what a schema may take. A place is
written as a JSON pointer: ``/properties/name``. The size of a regular expression is bounded before any library reads
it, as nested repeats multiply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from engine.errors import SafelightError, quoted
from engine.text.output_format import check_unicode
from engine.text.schema_parts import LISTS, ONE, changed, escaped, schema_at

MAX_PATTERN_SIZE = 20_000  # characters, each counted as often as the repeats around it require or allow
MAX_GROUPS = 64  # nested

_PART = re.compile(
    r"(?P<repeat>\{\s*(?P<least>\d{0,9})\s*,?\s*(?P<most>\d{0,9})\s*\})"
    r"|(?P<open>\((?:\?(?:P?<\w+>|:))?)(?!\?)|(?P<close>\))"
    r"|(?P<class>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])|(?P<sign>\\.|.)",
    re.DOTALL,
)
_PLAIN_CLASS = re.compile(r"\[-?(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9 _.,:;/!?@#$%&'()*+<=>{|}`~])*-?\]")
"""Classes of ASCII characters that JSON does not escape."""
_LITERAL_OPEN = re.compile(r"(?<!\\)\[(?!:)")  # in a class; other dialects take it for a class in it


def check_pattern(pattern: str, where: str) -> None:
    """Checks the size of a pattern.

    Raises:
        SafelightError: its repeats ask for too much. ``where`` names it.
    """
    sizes, last = [0], 0  # of each open group; of the last element
    for part in _PART.finditer(pattern):
        kind = part.lastgroup
        if kind == "open" or part[0] == "(":
            sizes.append(0)
            if len(sizes) > MAX_GROUPS:
                raise SafelightError(
                    f"{where} is {quoted(pattern)}, with groups deeper than {MAX_GROUPS}; make it simpler"
                )
            last = 0
        elif kind == "close" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif kind == "repeat":
            times = max(int(part["least"] or 0), int(part["most"] or 0))
            sizes[-1] += last * max(0, times - 1)
            last *= max(1, times)
        else:
            last = 1
            sizes[-1] += 1
        if sum(sizes) > MAX_PATTERN_SIZE:
            raise SafelightError(f"{where} is {quoted(pattern)}, which repeats too much; make it simpler")


def in_json(pattern: str) -> str:
    """Returns a schema's pattern with its classes split, so that the grammar of a JSON string holds them.

    A class with control characters lets quotation marks and backslashes through there, whether it has them or not.
    Those of them that JSON can write by a letter stand by themselves, and the others are never written.
    """

    def split(part: re.Match[str]) -> str:
        if part.lastgroup != "class" or _PLAIN_CLASS.fullmatch(part[0]):
            return part[0]
        inner = part[0][0] + _LITERAL_OPEN.sub(r"\\[", part[0][1:])
        return rf"(?:[{inner}&&[^\x00-\x1f]]|[{inner}&&[\n\r\t\x08\x0c]])"

    return _PART.sub(split, pattern)


MAX_SCHEMAS, MAX_DEPTH = 2_000, 32  # schemas in a schema, and their nesting
MAX_NUMBER = 2**53  # of a bound; JSON readers keep whole numbers up to it
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
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_KNOWN = frozenset((*_BOUNDS, *LISTS, *_MAPS, *ONE, "type", "enum", "const", "required", "pattern", "format",
                    "multipleOf", "$ref", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
                    "maxProperties"))  # fmt: skip
_LEAP = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_REAL_DAY = rf"^(?:\d{{4}}-(?:0[13-9]|1[0-2])|\d{{4}}-02-(?:[01]\d|2[0-8])|{_LEAP}-02-29)"

Lacks = Callable[[str], str]
"""Returns the first character of a text that the model cannot write; empty if there is none."""


def checked_schema(schema: Mapping[str, Any], lacks: Lacks, only: str | None = None) -> dict[str, Any]:
    """Returns the schema without parts that do not affect the answer; its references all are ``#/$defs/NAME``.

    Args:
        only: a pattern that all strings with a pattern must also match; None if the model can write any text.

    Raises:
        SafelightError: an unsupported keyword or reference, a text that the model cannot write, or a schema that is too
            large.
    """
    check = _Check(lacks, only)
    checked = check.schema(schema, "", 0)
    assert isinstance(checked, dict)
    return check.with_shared(checked)


class _Check:
    def __init__(self, lacks: Lacks, only: str | None) -> None:
        self._lacks, self._only = lacks, only
        self._places: set[str] = set()  # of all schemas
        self._references: dict[str, str] = {}  # each with its first place

    def schema(self, raw: Any, place: str, depth: int) -> Any:
        """Returns a schema in a schema; what is none is left to the library."""
        self._places.add(place)
        if len(self._places) > MAX_SCHEMAS:
            raise SafelightError(f"the schema has more than {MAX_SCHEMAS:,} parts; make it smaller")
        if depth > MAX_DEPTH:
            raise SafelightError(f"the schema is deeper than {MAX_DEPTH} levels at {_short(place)}; make it flatter")
        if not isinstance(raw, Mapping):
            return raw
        cleaned: dict[str, Any] = {}
        for name, value in raw.items():
            has_effect = any(one in raw for one in _WITH.get(name, (name,))) and _HARMLESS.get(name) != value
            if name in _REFUSED and (depth or name != "$id") and has_effect:
                raise _wrong(place, f"has {quoted(name)}, which is not supported; leave it out")
            if name in _KNOWN and not (name == "format" and isinstance(value, str) and value not in FORMATS):
                cleaned[name] = self._keyword(name, value, f"{place}/{escaped(name)}", depth)
        if "propertyNames" in raw:
            self._name(cleaned, raw["propertyNames"], f"{place}/propertyNames")
        self._check_count(cleaned, place)
        patterns = [self._only] if self._only is not None and "pattern" in cleaned else []
        patterns += [_REAL_DAY] if cleaned.get("format") in ("date", "date-time") else []
        if patterns and isinstance(cleaned.setdefault("allOf", []), list):
            cleaned["allOf"] = [*cleaned["allOf"], *({"pattern": one} for one in patterns)]
        return cleaned

    def _keyword(self, name: str, value: Any, place: str, depth: int) -> Any:
        if isinstance(value, list) and (name in LISTS or name == "items"):
            return [self.schema(one, f"{place}/{index}", depth + 1) for index, one in enumerate(value)]
        if name in ONE:
            return self.schema(value, place, depth + 1)
        if name in _MAPS and isinstance(value, Mapping):
            for key in value if name in ("properties", "patternProperties") else ():
                self._writable(key, place) if name == "properties" else self._pattern(key, place)
            return {key: self.schema(one, f"{place}/{escaped(key)}", depth + 1) for key, one in value.items()}
        if isinstance(value, float) and value.is_integer() and name != "const":
            value = int(value)
        if name in _BOUNDS and isinstance(value, int | float) and (value > 0) == name.lower().endswith("maximum"):
            return max(-MAX_NUMBER, min(MAX_NUMBER, value))
        if name in ("enum", "const", "required"):
            self._writable(value, place)
        elif name == "pattern" and isinstance(value, str):
            self._pattern(value, place)
        elif name == "$ref":
            return self._reference(value, place)
        return value

    def _name(self, schema: dict[str, Any], raw: Any, place: str) -> None:
        """Holds the names of an object's members to a list, or to a pattern.

        Raises:
            SafelightError: they cannot be held to what is asked.
        """
        asked = raw if isinstance(raw, Mapping) else {} if raw is True else {"enum": []}
        rest = {key: one for key, one in asked.items() if key in _KNOWN and (key, one) != ("type", "string")}
        members, others = schema.get("properties"), schema.get("additionalProperties", True)
        members = members if isinstance(members, Mapping) else {}
        if rest.keys() == {"enum"} and isinstance(rest["enum"], list) and "patternProperties" not in schema:
            names = [name for name in rest["enum"] if isinstance(name, str)]
            self._writable(names, place)
            schema["properties"] = {name: members.get(name, others) for name in names}
        elif rest.keys() == {"pattern"} and not members and "patternProperties" not in schema:
            self._pattern(rest["pattern"], place)
            schema["patternProperties"] = {rest["pattern"]: others}
        elif rest:
            raise _wrong(place, "cannot be held here; give a list or a pattern alone, or leave it out")
        else:
            return
        schema["additionalProperties"] = False

    def _check_count(self, schema: Mapping[str, Any], place: str) -> None:
        """Checks that a count of members is not met by the same name twice."""
        least, required = schema.get("minProperties"), schema.get("required")
        is_free = schema.get("additionalProperties", True) is not False or schema.get("patternProperties")
        if is_free and isinstance(least, int) and least > 1 + len(required if isinstance(required, list) else ()):
            raise _wrong(
                f"{place}/minProperties",
                f"is {least}, and an answer could give one name twice; list the names in properties and required",
            )

    def _pattern(self, pattern: str, place: str) -> None:
        check_unicode(f"the schema's {_short(place)}", pattern)
        check_pattern(pattern, f"the schema's {_short(place)}")

    def _writable(self, value: Any, place: str) -> None:
        """Checks that the model can write a value."""
        if isinstance(value, str):
            check_unicode(f"the schema's {_short(place)}", value)
            lacking = self._lacks(value)
            if lacking:
                raise _wrong(place, f"has {quoted(value)}; this model cannot write {quoted(lacking)}")
        for one in (
            (*value, *value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        ):
            self._writable(one, place)

    def _reference(self, value: Any, place: str) -> str:
        """Returns a reference as the path that it stands for."""
        if not isinstance(value, str) or (value != "#" and not value.startswith("#/")):
            raise _wrong(place, f"is {quoted(value)}; refer to a part of the schema itself, as #/$defs/NAME")
        path = unquote(value)
        self._references.setdefault(path, place)
        return path

    def with_shared(self, whole: dict[str, Any]) -> dict[str, Any]:
        """Returns a schema with all that it refers to among its definitions, and patterns as a grammar holds them."""
        names = {reference: str(number) for number, reference in enumerate(self._references)}
        shared = dict[str, Any]()

        def written(schema: Any) -> Any:
            if not isinstance(schema, Mapping):
                return schema
            copy = changed({name: one for name, one in schema.items() if name not in ("$defs", "definitions")}, written)
            if isinstance(copy.get("$ref"), str):
                copy["$ref"] = f"#/$defs/{names.get(copy['$ref'])}"
            if isinstance(copy.get("pattern"), str):
                copy["pattern"] = in_json(copy["pattern"])
            if isinstance(copy.get("patternProperties"), Mapping):
                copy["patternProperties"] = {in_json(name): one for name, one in copy["patternProperties"].items()}
            return copy

        for reference, place in self._references.items():
            try:
                if reference[1:] not in self._places:
                    raise LookupError
                shared[names[reference]] = written(schema_at(whole, reference))
            except LookupError:  # or its names leave it out
                raise _wrong(place, f"refers to {quoted(reference)}, where there is no schema") from None
        return {**written(whole), "$defs": shared} if shared else written(whole)


def _short(place: str, most: int = 160) -> str:
    return place if len(place) <= most else f"{place[:most]}…"


def _wrong(place: str, what: str) -> SafelightError:
    where = f"the schema's {_short(place)}" if place else "the schema"
    return SafelightError(f"{where} {what}")
