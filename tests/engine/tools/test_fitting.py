"""The check of a call's arguments, with schemas of servers that want it to take for ever, or to refuse what fits."""

from __future__ import annotations

from typing import Any

import pytest

from engine.tools import fitting
from engine.tools.fitting import misfit


def nested(keyword: str, levels: int = 20) -> dict[str, Any]:
    schema: dict[str, Any] = {keyword: True}
    for _ in range(levels):
        schema = {"if": schema, keyword: True}
    return schema


DRAFT = "https://json-schema.org/draft/2020-12/schema"
OBJECTS = [{"value": number} for number in range(3_000)]


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        ({"x": 1}, nested("unevaluatedProperties")),
        ({"x": [1]}, {"properties": {"x": nested("unevaluatedItems")}}),
        ({"x": OBJECTS}, {"properties": {"x": {"uniqueItems": True}}}),
        ({}, {"required": OBJECTS, "type": OBJECTS}),  # a check of the schema itself would look for equal ones
        ({"x": [1] * 30_000}, {"properties": {"x": {"items": {"$schema": DRAFT, "allOf": [{"minimum": 0}] * 1_000}}}}),
        ({"x": list(range(30_000))}, {"properties": {"x": {"items": {"allOf": [{"minimum": 0}] * 1_000}}}}),
        ({"x": OBJECTS}, {"properties": {"x": {"items": {"enum": [[]] * 8_000}}}}),
        ({"x": 1.5}, {"properties": {"x": {"multipleOf": 10**400}}}),
        ({"x": 10**400}, {"properties": {"x": {"multipleOf": 0.1}}}),
        ({"x": 1}, {"properties": {"x": {"maximum": 10**5_000}}}),  # too long to be written in a reason
        ({"x": 10**5_000}, {"properties": {"x": {"maximum": 1}}}),
    ],
)
def test_no_schema_holds_the_check_up(arguments: dict[str, Any], schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "MOST_SECONDS", 0.2)
    assert misfit(arguments, schema) == ""


CAT, DOG = {"$ref": "#/$defs/Cat"}, {"pattern": "^dog"}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("tom", {"oneOf": [CAT, DOG]}),
        ("tom", {"oneOf": [{"format": "date"}, {"format": "time"}]}),
        ("tom", {"not": DOG}),
        ("tom", {"if": DOG, "then": {"const": "dog"}}),
        (["tom", "dog"], {"contains": DOG, "maxContains": 1}),
        ({"x-a": 1}, {"patternProperties": {"^x-": {}}, "additionalProperties": False}),
        ({"x": "tom"}, {"not": {"properties": {"x": {"allOf": [DOG]}}}}),
        (0.5, {"minimum": 0, "exclusiveMinimum": True}),  # of an older draft
        ({"a": 1}, {"properties": {"a": {"required": True}}, "required": "ab"}),
        (["tom", 1], {"items": [{"type": "string"}, {"type": "number"}]}),
        ("tom", {"anyOf": [], "enum": "tomcat"}),
        ("tom", {"type": "int"}),
    ],
)
def test_what_is_left_out_of_a_schema_never_refuses_what_fits(value: Any, schema: dict[str, Any]) -> None:
    assert misfit({"value": value}, {"properties": {"value": schema}}) == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kind": "cat", "age": 2, "odd": 3}, "'odd': 3 is not of type 'string'"),
        ({"kind": "bird", "age": 2}, "'kind': 'bird' is not one of ['cat', 'dog']"),
        ({"kind": "cat", "age": "two"}, "'age': 'two' is not of type 'integer'"),
        ({"kind": "cat"}, "'age' is a required property"),
        ({"kind": "cat", "age": 2, "tail": [1, "x"]}, "'tail/1': 'x' is not of type 'integer'"),
        ({"kind": "cat", "age": 2, "step": 3}, "'step': 3 is not a multiple of 2"),
        ({"kind": "cat", "age": 2, "pet": 1}, "'pet': 1 is not valid under any of the given schemas"),
        ({"kind": "cat", "age": 2, "more": 1}, "Additional properties are not allowed ('more' was unexpected)"),
    ],
)
def test_a_misfit_is_said(arguments: dict[str, Any], said: str) -> None:
    properties = {
        "kind": {"enum": ["cat", "dog"]},
        "age": {"type": "integer"},
        "tail": {"items": {"type": "integer"}, "uniqueItems": True},
        "step": {"multipleOf": 2},
        "odd": {"type": "string", "oneOf": [], "minimum": "1", "format": 7, "allOf": {}},
        "pet": {"oneOf": [{"type": "string", **DOG}, {"type": "object", **CAT}]},
    }
    schema = {"type": "object", "properties": properties, "required": ["kind", "age"], "additionalProperties": False}
    assert misfit(arguments, schema) == said
