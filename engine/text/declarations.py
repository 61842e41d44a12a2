"""Writes the schemas of tools' parameters in the plain form that every chat template reads.

Some templates take a schema apart, and lose what they do not expect: a list of types, alternatives, references. In the
plain form a value has one type, may be nullable, and is described where it stands. Knows no template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.text.schema_parts import changed, found_at

MAX_SCHEMAS = 2_000  # that references put in place, of all tools; further references are left out
MAX_DEPTH = 10  # of members and items in which references are put in place
_DEEPEST = 32  # what is deeper is refused later
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_LEFT_OUT = ("$ref", "$defs", "definitions", "anyOf", "oneOf", "allOf", "const")


def plain_declarations(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns tools as OpenAI describes them, with the schemas of their parameters in plain form."""
    found, left = list[Mapping[str, Any]](), MAX_SCHEMAS
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("parameters"), Mapping):
            plain = _PlainSchema(function["parameters"], left)
            tool, left = {**tool, "function": {**function, "parameters": plain.whole}}, plain.left
        found.append(tool)
    return found


class _PlainSchema:
    """A schema in plain form. Of several types or alternatives besides null, the first is taken."""

    def __init__(self, root: Mapping[str, Any], left: int) -> None:
        self._root, self.left = root, left
        self.whole = self._plain(root, (), 0)

    def _plain(self, schema: Any, within: tuple[str, ...], depth: int) -> Any:
        """Returns a schema in plain form; ``within`` are the references that lead to it."""
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return schema
        self.left -= bool(within)
        found, is_nullable = dict[str, Any](), schema.get("nullable") is True
        reference = schema.get("$ref")
        is_open = self.left > 0 and depth <= MAX_DEPTH and len(within) < _DEEPEST and reference not in within
        if isinstance(reference, str) and is_open:
            found = _merged(found, self._plain(self._referred(reference), (*within, reference), depth))
        for one in _listed(schema, "allOf"):
            found = _merged(found, self._plain(one, within, depth + 1))
        for name in ("anyOf", "oneOf"):
            plain = [self._plain(one, within, depth + 1) for one in _listed(schema, name)]
            choices = [one for one in plain if isinstance(one, dict)]
            others = [one for one in choices if one.get("type") != "null"]
            is_nullable = is_nullable or len(others) < len(choices)
            if others and all("enum" in one for one in others):
                others[0] = {**others[0], "enum": [value for one in others for value in one["enum"]]}
            found = _merged(found, others[0] if others else {})
        own = {name: value for name, value in schema.items() if name not in _LEFT_OUT}
        own = changed(own, lambda inner: self._plain(inner, within, depth + 1))
        if "const" in schema:
            own.setdefault("enum", [schema["const"]])
        found = _typed(_merged(found, own))
        return {**found, "nullable": True} if is_nullable else found

    def _referred(self, reference: str) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            return {}
        try:
            return found_at(self._root, reference)
        except (LookupError, TypeError, ValueError):
            return {}


def _listed(schema: Mapping[str, Any], name: str) -> list[Any]:
    value = schema.get(name)
    return value if isinstance(value, list) else []


def _merged(first: dict[str, Any], second: Any) -> dict[str, Any]:
    """Returns what two schemas say about one value; the second has the last word."""
    if not isinstance(second, Mapping):
        return first
    both = {**first, **second}
    if isinstance(first.get("properties"), dict) and isinstance(second.get("properties"), dict):
        both["properties"] = {**first["properties"], **second["properties"]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        both["required"] = [*first["required"], *second["required"]]
    return both


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema with one type, that of its values if it names none; null among them makes it nullable."""
    found, kind, values = dict(schema), schema.get("type"), _listed(schema, "enum")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        found |= {"type": kinds[0] if kinds else "null"} | (
            {"nullable": True} if len(kinds) < len(kind) and kinds else {}
        )
    elif kind is None and (named := [value for value in values if type(value) in _KINDS]):
        found["type"] = "number" if {*map(type, named)} == {int, float} else _KINDS[type(named[0])]
    elif kind is None and ("properties" in schema or "items" in schema):
        found["type"] = "object" if "properties" in schema else "array"
    if None in values and any(value is not None for value in values):
        found |= {"enum": [value for value in values if value is not None], "nullable": True}
    return found
