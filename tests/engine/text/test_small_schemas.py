"""Small schemas: an answer is taken if ``jsonschema`` takes it, and what cannot be held is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from engine import MINI, SafelightError, load_model
from engine.text.grammar import GrammarState
from engine.text.grammar_tokens import GrammarTokens
from engine.text.output_format import OutputFormat
from engine.text.tokenizer import Tokenizer

Schema = dict[str, Any]
INTEGER, DATE = {"type": "integer"}, {"type": "string", "format": "date"}
FREE = {"type": "object", "additionalProperties": INTEGER}
FOO = {"type": "object", "properties": {"foo": INTEGER}}
OBJECTS = ("{}", '{"n": 1}', '{"foo": 1}', '{"ab": 1}', '{"bar": 2}', '{"abcd": 1}', '{"foo": 2, "n": 1}', '{"n": "x"}')
TEXTS = ('"ab"', r'"a\"b"', r'"a\\b"', r'"a\nb"', r'"\""', r'"\\"', '"xz"', r'"x\\"', '"n"', '"é"')
DAYS = [f'"{day}"' for day in ("2021-02-29", "2020-02-29", "2100-02-29", "2000-02-29", "2023-12-31", "2023-02-28")]


@pytest.fixture(scope="module")
def vocabulary() -> tuple[Tokenizer, GrammarTokens]:
    model = load_model(MINI, device="cpu")
    ends = model.generation_defaults.eos_token_ids
    return model.tokenizer, GrammarTokens.from_tokenizer(model.tokenizer, model.config.vocab_size, ends)


def takes(vocabulary: tuple[Tokenizer, GrammarTokens], schema: Schema, text: str) -> bool:
    """True if an answer may be this text, and end."""
    tokenizer, tokens = vocabulary
    state = GrammarState(OutputFormat("json_schema", schema), tokens)
    ids = [*tokenizer.encode(text), tokens.ends[0]]
    taken = state.take(ids)
    state.close()
    return taken == len(ids)


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        *(({**FREE, "propertyNames": names}, OBJECTS) for names in (
            True, False, {"enum": ["foo", "n", 3]}, {"type": "string"}, {"pattern": "^a"},
        )),
        ({**FOO, "propertyNames": {"enum": ["n", "ab"]}}, OBJECTS),
        ({**FREE, "minProperties": 1}, ("{}", '{"n": 1}')),
        ({**FREE, "minProperties": 2, "required": ["n"]}, ('{"n": 1}', '{"n": 1, "n": 2}', '{"n": 1, "m": 2}')),
        ({**FOO, "minProperties": 1, "required": ["foo"], "additionalProperties": False}, OBJECTS),
        *(({"type": "string", "pattern": pattern}, TEXTS) for pattern in (
            '^[^"]*$', r"^[^\\]*$", r'^[^"\\]+$', "^[^a]*$", '^[^"n]*$', r"^x[^y\\]$", '[^"]', r"^[\x00-!#-~]*$",
            "^[^[]*$",
        )),
        ({"type": "object", "patternProperties": {'^[^"]*$': INTEGER}, "additionalProperties": False},
         ('{"a": 1}', r'{"\"": 1}')),
        (DATE, DAYS),
        ({"$defs": {"a%b": INTEGER}, "$ref": "#/$defs/a%25b"}, ("1", '"a"')),
        ({"$defs": {"x[1]": INTEGER}, "$ref": "#/$defs/x%5B1%5D"}, ("1", '"a"')),
        ({"patternProperties": {"^[^a]": INTEGER}, "$ref": "#/$defs/n",
          "$defs": {"n": {"properties": {"b": {"$ref": "#/patternProperties/^[^a]"}}}}}, ('{"b": 1}', '{"b": "x"}')),
        ({"type": "string", "maxLength": 2.0}, ('"ab"', '"abc"')),
        *(({**INTEGER, **odd}, ("1", "2")) for odd in (
            {"then": False}, {"else": False}, {"if": False}, {"dependencies": {}}, {"dependentRequired": {}},
            {"minContains": 3}, {"maxContains": 0},
        )),
    ],
)  # fmt: skip
def test_what_is_taken_is_valid(
    vocabulary: tuple[Tokenizer, GrammarTokens], schema: Schema, texts: tuple[str, ...]
) -> None:
    checker = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert {text: takes(vocabulary, schema, text) for text in texts} == {
        text: checker.is_valid(json.loads(text)) and not _names_one_twice(text) for text in texts
    }


def _names_one_twice(text: str) -> bool:
    """True if an object has a name twice; such answers are not counted as any."""
    return text.startswith("{") and len(json.loads(text, object_pairs_hook=list)) > len(json.loads(text))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({**FREE, "propertyNames": {"pattern": "^b", "maxLength": 2}}, "/propertyNames cannot be held here"),
        ({**FREE, "patternProperties": {"^a": INTEGER}, "propertyNames": {"enum": ["ab"]}}, "cannot be held here"),
        ({**FOO, "propertyNames": {"pattern": "^f"}}, "cannot be held here"),
        ({**FOO, "required": ["foo"], "propertyNames": {"enum": ["bar"]}}, "'foo' is unsatisfiable"),
        ({**FREE, "minProperties": 2}, "/minProperties is 2, and an answer could give one name twice"),
        ({"minProperties": 3, "required": ["a"]}, "/minProperties is 3"),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False, "minProperties": 2}, "/minProperties is 2"),
        ({"if": {"type": "integer"}, "then": {"minimum": 3}}, "has 'if'"),
        ({"dependencies": {"a": ["b"]}}, "has 'dependencies'"),
        ({"$ref": "#/default", "default": INTEGER}, "there is no schema"),
    ],
)  # fmt: skip
def test_what_cannot_be_held_is_refused_by_name(
    vocabulary: tuple[Tokenizer, GrammarTokens], schema: Schema, message: str
) -> None:
    with pytest.raises(SafelightError, match=message):
        takes(vocabulary, schema, "{}")
