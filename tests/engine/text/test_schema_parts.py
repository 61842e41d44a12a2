"""Schemas are gone through once each, however many stand side by side or in one another."""

from __future__ import annotations

from typing import Any

from engine.text.schema_parts import changed


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
