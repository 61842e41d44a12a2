"""Schemas are gone through once each, however many stand side by side or in one another."""

from __future__ import annotations

from typing import Any

from engine.text.schema_parts import changed
from engine.text.schema_recursion import unrolled


def test_each_schema_in_a_schema_is_changed_once() -> None:
    seen = []

    def change(inner: Any) -> Any:
        seen.append(inner)
        return {"const": len(seen)}

    schema = {"anyOf": [{}, True], "items": {}, "properties": {"a": {}, "b": {}}, "required": ["a"], "$defs": {"c": {}}}
    found = changed(schema, change)
    assert len(seen) == 5
    assert found == {
        "anyOf": [{"const": 1}, {"const": 2}],
        "items": {"const": 3},
        "properties": {"a": {"const": 4}, "b": {"const": 5}},
        "required": ["a"],
        "$defs": {"c": {}},
    }


def test_alternatives_in_alternatives_are_written_once() -> None:
    """Two in each of thirty levels: a walk for each pair of them would never end."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(30):
        schema = {"anyOf": [{"type": "null"}, schema]}
    assert unrolled(schema) == schema
    wide = {"anyOf": [{"$ref": "#/$defs/d"}] * 2_000, "$defs": {"d": {"type": "null"}}}
    assert unrolled(wide) == wide
