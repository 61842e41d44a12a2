"""Schemas of tools in plain form, for templates that would lose the rest; other templates write them as they are."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from engine.text.chat_template import MAX_SCHEMAS, ChatTemplate, plain_declarations
from engine.text.schema_parts import changed
from tests.engine.text.test_inert_fields import CHATML
from tests.engine.text.tool_template import QUESTION, TEMPLATE


def tool(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "description": "what it does", "parameters": schema}}


def plain(schema: dict[str, Any]) -> Any:
    return plain_declarations([tool(schema)])[0]["function"]["parameters"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["null", "integer"], "minimum": 1}, {"type": "integer", "minimum": 1, "nullable": True}),
        ({"type": ["integer", "string"]}, {"type": "integer"}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "how many", "default": None},
            {"type": "integer", "description": "how many", "default": None, "nullable": True},
        ),
        (
            {"oneOf": [{"type": "null"}, {"type": "array", "items": {"type": ["number", "null"]}}]},
            {"type": "array", "items": {"type": "number", "nullable": True}, "nullable": True},
        ),

        ({"anyOf": [{"const": 1, "title": "one"}, {"const": 2}]}, {"title": "one", "enum": [1, 2], "type": "integer"}),

        ({"enum": [True, False]}, {"enum": [True, False], "type": "boolean"}),
        ({"enum": ["a", None]}, {"enum": ["a"], "type": "string", "nullable": True}),
        ({"$ref": "#/$defs/unit", "description": "own"}, {"enum": ["C", "F"], "type": "string", "description": "own"}),
        ({"allOf": [{"$ref": "#/$defs/unit"}], "default": "C"}, {"enum": ["C", "F"], "type": "string", "default": "C"}),
        ({"items": {"$ref": "#/$defs/unit"}}, {"items": {"enum": ["C", "F"], "type": "string"}, "type": "array"}),
        ({"$ref": "#/$defs/none"}, {}),
        ({"type": "string", "enum": ["a"], "pattern": "a"}, {"type": "string", "enum": ["a"], "pattern": "a"}),
        (
            {"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}],
             "properties": {"b": {}}, "required": ["b"]},
            {"properties": {"a": {"enum": [1], "type": "integer"}, "b": {}}, "required": ["a", "b"], "type": "object"},
        ),
    ],
)  # fmt: skip
def test_a_schema_in_plain_form(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"p": schema}, "$defs": {"unit": {"enum": ["C", "F"]}}}
    before = copy.deepcopy(whole)
    assert plain(whole) == {"type": "object", "properties": {"p": expected}}
    assert whole == before


def test_each_schema_in_a_schema_is_changed_once() -> None:
    seen: list[Any] = []

    def change(inner: Any) -> Any:
        seen.append(inner)
        return {"const": len(seen)}

    schema = {"anyOf": [{}, True], "items": {}, "properties": {"a": {}, "b": {}}, "required": ["a"], "$defs": {"c": {}}}
    one, two, three, four, five = ({"const": number} for number in range(1, 6))
    assert changed(schema, change) == {
        **schema, "anyOf": [one, two], "items": three, "properties": {"a": four, "b": five},
    }  # fmt: skip


def test_a_schema_within_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "name": {"type": "string"}}}
    found = plain({"properties": {"first": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}})
    assert found["properties"]["first"] == {"type": "object", "properties": {"next": {}, "name": {"type": "string"}}}
    assert plain({"$ref": "#"}) == {}
    assert plain({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}) == {}


def many(count: int, **more: Any) -> dict[str, Any]:
    """Schemas, each with two members of the next one."""
    member = [{"$ref": f"#/$defs/n{n}"} for n in range(count + 1)]
    levels = {f"n{n}": {"properties": {"a": member[n + 1], "b": member[n + 1]}} for n in range(count)}
    return {"$ref": "#/$defs/n0", "$defs": {**levels, f"n{count}": {"type": "string"}, **more}}


def test_references_that_multiply_or_nest_are_bounded() -> None:
    assert json.dumps(plain(many(30))).count("{") < 4 * MAX_SCHEMAS
    chain = {f"c{n}": {"$ref": f"#/$defs/c{n + 1}"} for n in range(5_000)}
    assert plain({"$ref": "#/$defs/c0", "$defs": {**chain, "c5000": {"type": "string"}}}) == {}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        deep = {"anyOf": [{"items": deep}]}
    assert plain({"properties": {"a": deep}})["type"] == "object"
    tools = [tool(many(30)) for _ in range(20)]  # which could be written before, too
    rendered = ChatTemplate(TEMPLATE, {"bos_token": ""}).render([QUESTION], tools)
    assert rendered.count("<|tool>") == 20


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": ["string", "null"]},
        "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "c": {"enum": ["x", "y"]},
        "d": {"$ref": "#/$defs/place"},
    },
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def test_a_template_that_takes_schemas_apart_gets_them_in_plain_form_and_others_unchanged() -> None:
    rendered = ChatTemplate(TEMPLATE, {"bos_token": ""}).render([QUESTION], [tool(SCHEMA)])
    assert (
        'properties:{a:{type:<|"|>STRING<|"|>},b:{type:<|"|>INTEGER<|"|>},'
        'c:{enum:[<|"|>x<|"|>,<|"|>y<|"|>],type:<|"|>STRING<|"|>},'
        'd:{properties:{city:{type:<|"|>STRING<|"|>}},type:<|"|>OBJECT<|"|>}}'
    ) in rendered
    assert json.dumps(SCHEMA) in ChatTemplate(CHATML, {}).render([QUESTION], [tool(SCHEMA)])
