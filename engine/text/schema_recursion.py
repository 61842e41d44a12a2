"""Writes recursive JSON schemas out to a depth, so that an answer under them is finite.

A schema that contains itself is copied for each level, and each copy refers to the next. Where the last one would
contain another, nothing is allowed: a member is left out, a list is empty, another alternative is taken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from engine.errors import SafelightError, quoted
from engine.text.schema_parts import changed, found_at, inner_schemas, references_in

_ODD = re.compile(r"[^A-Za-z0-9_.-]")
MOST_LEVELS = 12
MOST_NESTING = 24  # of objects and lists in an answer, by recursion
MOST_COPIES = 1_000  # of schemas


def unrolled(root: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a schema without recursion, whose references all are ``#/$defs/NAME``.

    Args:
        root: of checked keywords, and of references that all lead to a schema in it.

    Raises:
        SafelightError: no value of a schema is finite; names it.
    """
    return _Unrolling(root).whole()


class _Unrolling:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._inner: dict[str, dict[str, int]] = {}  # the references in each reference's schema
        waiting = list(references_in(root))
        while waiting:
            one = waiting.pop()
            if one not in self._inner:
                self._inner[one] = references_in(found_at(root, one))
                waiting += self._inner[one]
        self._reached = {one: self._reach(one) for one in self._inner}
        recursive = [one for one, found in self._reached.items() if one in found]
        self._check_ends(recursive)
        copies = sum(_size(found_at(root, one)) for one in recursive)
        nesting = max((self._nesting(one) for one in recursive), default=0)
        self._levels = max(2, min(MOST_LEVELS, MOST_NESTING // max(1, nesting), MOST_COPIES // max(1, copies)))
        self._names: dict[tuple[str, int], str] = {}  # of the definitions, by reference and level
        self._waiting: list[tuple[str, int]] = []

    def whole(self) -> dict[str, Any]:
        found = self._written(self._root, "#", 0)
        shared = dict[str, Any]()
        while self._waiting:
            one, level = self._waiting.pop()
            shared[self._names[one, level]] = self._written(found_at(self._root, one), one, level)
        assert isinstance(found, dict)
        return {**found, "$defs": shared} if shared else found

    def _written(self, schema: Any, within: str, level: int) -> Any:
        """Returns a schema with its references as those of a level."""
        if not isinstance(schema, Mapping):
            return schema
        own = {name: value for name, value in schema.items() if name not in ("$defs", "definitions")}
        if "$ref" in schema:
            reference = self._reference(schema["$ref"], within, level)
            if reference is None:
                return False
            own["$ref"] = reference
        return changed(own, lambda inner: self._written(inner, within, level))

    def _reference(self, wanted: str, within: str, level: int) -> str | None:
        """Returns the reference that stands for one in a copy; None behind the last level."""
        is_back = within in self._reached[wanted] and wanted in self._reached.get(within, ())
        level = level + 1 if is_back else 0
        if level > self._levels:
            return None
        name = self._names.get((wanted, level))
        if name is None:
            name = _ODD.sub("_", wanted.removeprefix("#/$defs/")) + (f".{level}" if level else "")
            while name in self._names.values():
                name += "_"
            self._names[wanted, level] = name
            self._waiting.append((wanted, level))
        return f"#/$defs/{name}"

    def _check_ends(self, recursive: Sequence[str]) -> None:
        """Checks that no schema must contain itself."""
        ending = self._inner.keys() - set(recursive)
        while found := [one for one in recursive if one not in ending and _ends(found_at(self._root, one), ending)]:
            ending |= set(found)
        for one in recursive:
            if one not in ending:
                raise SafelightError(f"the schema refers to {quoted(one)}, which must contain itself without end")

    def _reach(self, reference: str) -> set[str]:
        found, waiting = set[str](), list(self._inner[reference])
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self._inner[one]
        return found

    def _nesting(self, reference: str) -> int:
        """Returns how many objects and lists deep a schema's value has another of its circle."""
        inner = self._inner[reference].items()
        return max((depth for one, depth in inner if reference in self._reached[one] | {one}), default=0)


def _ends(schema: Any, ending: Collection[str]) -> bool:
    """True if some value of a schema is finite, where those of these references are."""
    if not isinstance(schema, Mapping):
        return schema is not False
    kind, members, items = schema.get("type"), schema.get("properties", {}), schema.get("items")
    needed = [*schema.get("allOf", ())]
    if kind == "object":
        needed += [members[name] for name in schema.get("required", ()) if name in members]
    if kind == "array" and schema.get("minItems") and isinstance(items, Mapping):
        needed.append(items)
    either = [schema[name] for name in ("anyOf", "oneOf") if name in schema]
    return (
        ("$ref" not in schema or schema["$ref"] in ending)
        and all(_ends(one, ending) for one in needed)
        and all(any(_ends(one, ending) for one in each) for each in either)
    )


def _size(schema: Any) -> int:
    return 1 + sum(_size(inner) for _, _, inner in inner_schemas(schema))
