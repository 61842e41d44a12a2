"""Formats as grammars over a model's tokens: what they force and allow, and what is refused, with its place."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from engine import MINI, Model, SafelightError, load_model
from engine.text.grammar import GrammarState
from engine.text.grammar_tokens import GrammarTokens
from engine.text.output_format import OutputFormat

Schema = dict[str, Any]
INTEGER, DATE = {"type": "integer"}, {"type": "string", "format": "date"}
FREE = {"type": "object", "additionalProperties": INTEGER}
FOO = {"type": "object", "properties": {"foo": INTEGER}}
OBJECTS = ("{}", '{"n": 1}', '{"foo": 1}', '{"ab": 1}', '{"bar": 2}', '{"abcd": 1}', '{"foo": 2, "n": 1}', '{"n": "x"}')
TEXTS = ('"ab"', r'"a\"b"', r'"a\\b"', r'"a\nb"', r'"\""', r'"\\"', '"xz"', r'"x\\"', '"n"', '"é"')
DAYS = [f'"{day}"' for day in ("2021-02-29", "2020-02-29", "2100-02-29", "2000-02-29", "2023-12-31", "2023-02-28")]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(MINI, device="cpu")


@pytest.fixture(scope="module")
def tokens(model: Model) -> GrammarTokens:
    return GrammarTokens.from_tokenizer(
        model.tokenizer, model.config.vocab_size, model.generation_defaults.eos_token_ids
    )


def begun(tokens: GrammarTokens, wanted: OutputFormat | Schema) -> GrammarState:
    if isinstance(wanted, dict):
        wanted = OutputFormat("json_schema", wanted)
    return GrammarState(wanted, tokens)


def text(model: Model, ids: list[int]) -> str:
    return model.tokenizer.decode(ids, skip_special=False)


def person(**more: Any) -> Schema:
    return {"type": "object", "properties": more, "required": [*more], "additionalProperties": False}


def test_what_the_format_forces_is_reported_up_to_the_first_choice(model: Model, tokens: GrammarTokens) -> None:
    state = begun(tokens, person(name={"type": "string"}, size={"type": "integer"}))
    assert text(model, state.forced()) == '{"name": "'
    assert state.take(model.tokenizer.encode('{"name": "é\\n", ')) == 16
    assert text(model, state.forced()) == '"size": '
    assert not state.may_end


@pytest.mark.parametrize("written", ['{"name":"x","size":1}', '{\n  "name" : "x",\n  "size": 12\n}'])
def test_json_may_be_written_with_other_white_space(model: Model, tokens: GrammarTokens, written: str) -> None:
    state = begun(tokens, person(name={"type": "string"}, size={"type": "integer"}))
    ids = model.tokenizer.encode(written)
    assert state.take([*ids, 8, 8, 3]) == len(ids) + 1
    assert state.has_ended
    assert state.take([5]) == 0


def test_white_space_is_taken_before_something_only(model: Model, tokens: GrammarTokens) -> None:
    encode = model.tokenizer.encode
    state = begun(tokens, OutputFormat("json_object"))
    assert state.take(encode("{" + " " * 90 + '"a')) == 1
    assert text(model, [token for token in range(128) if state.allowed()[token]]) == '"}'
    assert state.take(encode(" " * 30 + '" a  ')) == 35
    assert text(model, [token for token in range(128) if state.closing(state.allowed())[token]]) == '"'


def test_white_space_is_allowed_where_it_separates_values(model: Model, tokens: GrammarTokens) -> None:
    state = begun(tokens, person(sizes={"type": "array", "items": {"type": "integer"}}))
    for written, signs in (
        ('{"sizes": [', "-0123456789]"), ("4", "\n ,0123456789]"), (",", "\n -0123456789"), (" ", "-0123456789"),
        ("-", "0123456789"), ("7\n", ",]"), (",", "\n -0123456789"), ("5", "\n ,0123456789]"), ("]", "}"),
    ):  # fmt: skip
        assert state.take(model.tokenizer.encode(written)) == len(written)
        assert sorted(text(model, [token for token in range(128) if state.allowed()[token]])) == sorted(signs)


def test_an_end_is_taken_only_where_the_answer_is_whole(model: Model, tokens: GrammarTokens) -> None:
    state = begun(tokens, OutputFormat("regex", pattern="[0-9]{2,3}"))
    five = model.tokenizer.encode("5")
    assert state.take([*five, 1]) == 1
    assert not state.allowed()[1]
    assert state.take(five) == 1
    assert state.may_end
    assert not state.must_end
    assert state.allowed()[[1, 8]].all()
    assert state.take([*five, *five]) == 1
    assert state.must_end
    assert state.take([8]) == 1
    assert state.has_ended


def test_choices_are_texts_and_no_patterns(model: Model, tokens: GrammarTokens) -> None:
    choices = ("a+b", 'say "no"', "two\nlines", "back\\slash", "naïve")
    for choice in choices[:-1]:
        state = begun(tokens, OutputFormat("choices", choices=choices[:-1]))
        assert state.take([*model.tokenizer.encode(choice), 1]) == len(choice) + 1
    with pytest.raises(SafelightError, match="the choice 'naïve' has 'ï', which this model cannot write"):
        begun(tokens, OutputFormat("choices", choices=choices))


def test_what_the_model_cannot_write_is_never_begun(model: Model, tokens: GrammarTokens) -> None:
    state = begun(tokens, OutputFormat("regex", pattern="a[あ-ん]|bc"))
    assert text(model, state.forced()) == "bc"
    state = begun(tokens, OutputFormat("regex", pattern="[éü]+x"))
    assert text(model, [token for token in range(128) if state.allowed()[token]]) == "éü"
    state = begun(tokens, person(key={"type": "string", "pattern": "^(x|[あ-ん]y)z$"}))
    assert text(model, state.forced()) == '{"key": "xz"}'


def deep(levels: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def calls(**parameters: Any) -> OutputFormat:
    return OutputFormat("tool_calls", tools=({"name": "f", "parameters": parameters},))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (person(n=person(a={"type": "integer", "minimum": 5, "maximum": 3})), r"/properties/n/properties/a .* minimum"),
        ({"type": "object", "required": ["b"], "additionalProperties": False}, "required property 'b'"),
        ({"type": "array", "items": {"enum": []}, "minItems": 1}, r"/items cannot be satisfied"),
        ({"anyOf": [False]}, "cannot be satisfied"),
        ({"$ref": "#"}, "no such text"),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, r"/properties/a/\$ref refers to .* there is no schema"),
        ({"$ref": "https://example.org/s.json"}, "refer to a part of the schema itself"),
        ({"type": "array", "uniqueItems": True}, "has 'uniqueItems', which is not supported"),
        ({"type": "strnig"}, "Invalid type: strnig"),
        ({"properties": {"a": {"pattern": "("}}}, r"/properties/a cannot be satisfied: unclosed group"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"type": "string", "pattern": "((a{99}){99}){99}"}, "repeats too much"),
        ({"type": "number", "minimum": 1e300}, "Failed to generate"),
        ({"properties": {"日": {}}}, "this model cannot write '日'"),
        (person(a={"enum": ["x", {"k": ["日本"]}]}), "/properties/a/enum has '日本'; this model cannot write '日'"),
        ({"const": "\ud800"}, "half a character"),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "oneOf"),
        ({"x-guidance": {"lenient": True}, "type": "string", "contains": {}}, "has 'contains'"),
        ({"required": "a"}, "Expected array"),
        ({"oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "write anyOf in place of oneOf"),
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
        (deep(40), "."),
        ({"anyOf": [{"const": at} for at in range(2_100)]}, "."),
        ({"allOf": [{"anyOf": [person(**{f"a{at}": {"const": one}}) for one in range(6)]} for at in range(6)]}, "."),
        (OutputFormat("regex", pattern="("), "unclosed group"),
        (OutputFormat("regex", pattern=r"[^\s\S]"), "no such text"),
        (OutputFormat("regex", pattern="(a{999}){999}"), "repeats too"),
        (calls(properties={"a": {"$ref": "#/title"}}, title="x"), r"^the parameters of the tool 'f'.*no schema"),
    ],
)  # fmt: skip
def test_what_no_answer_can_fit_is_refused_with_its_place(
    tokens: GrammarTokens, wanted: OutputFormat | Schema, message: str
) -> None:
    with pytest.raises(SafelightError, match=message):
        begun(tokens, wanted)


LIST = {"$defs": {"n": person(v={"type": "integer"}, n={"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]})},
        "$ref": "#/$defs/n"}  # fmt: skip
TREE = person(name={"type": "string"}, of={"type": "array", "items": {"$ref": "#"}})
WILD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Order",
    "$defs": {"Kind": {"enum": ["a", "b"], "type": "string"}},
    "properties": {
        "kind": {"$ref": "#/$defs/Kind", "description": "one of two"},
        "count": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": None},
        "tags": {"items": {"type": "string", "maxLength": 8}, "type": "array", "minItems": 1, "maxItems": 3},
        "when": {"type": "string", "format": "date-time", "examples": ["2026-01-01T00:00:00Z"]},
        "price": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
    },
    "required": ["kind", "tags"],
    "type": "object",
}
MULTIPLES = person(a={"type": "integer", "multipleOf": 9973}, b={"type": "integer", "multipleOf": 9967})


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer", "minimum": -(2**53 - 1), "maximum": 2**53 - 1}, "9007199254740991"),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, "-9007199254740992"),
        ({"type": "number", "maximum": 1e300}, "5.5"),
        ({"type": "string", "format": "jwt", "contentEncoding": "base64", "contentMediaType": "image/png"}, '"a b"'),
        (person(a={"type": "array", "uniqueItems": False, "x-order": 2}, b={"of": 1}), '{"a": [1], "b": 2}'),
        ({"propertyNames": {"type": "string"}, "additionalProperties": {"type": "null"}}, '{"q": null}'),
        ({"$defs": {"List<int>": {"type": "integer"}}, "$ref": "#/$defs/List<int>"}, "5"),
        (LIST, '{"v": 1, "n": {"v": 2, "n": null}}'),
        (TREE, '{"name": "a", "of": [{"name": "b", "of": []}, {"name": "c", "of": [{"name": "d", "of": []}]}]}'),
        (MULTIPLES, '{"a": 9973, "b": 0}'),  # which do not meet in one number
        ({"type": "number", "multipleOf": 9.97}, "19.94"),
        ({"type": "number", "multipleOf": 0.01, "allOf": [{"multipleOf": 0.25}]}, "0.75"),
        (WILD, '{"kind": "a", "count": null, "tags": ["x"], "price": 0.25}'),
    ],
)  # fmt: skip
def test_what_clients_write_in_schemas_is_taken(
    model: Model, tokens: GrammarTokens, schema: Schema, written: str
) -> None:
    ids = model.tokenizer.encode(written)
    assert begun(tokens, schema).take([*ids, 1]) == len(ids) + 1


@pytest.mark.parametrize(
    ("schema", "written", "taken"),
    [
        ({"type": "integer", "maximum": 2**63 - 1}, "9007199254740993", "900719925474099"),
        ({"type": "string", "format": "date"}, '"2026-13', '"2026-1'),
        ({"type": "object", "propertyNames": {"enum": ["ab", "cd"]}}, '{"ac', '{"a'),
        ({"type": "object", "propertyNames": {"pattern": "^a+$"}}, '{"ab', '{"a'),
    ],
)
def test_what_schemas_hold_is_held(
    model: Model, tokens: GrammarTokens, schema: Schema, written: str, taken: str
) -> None:
    assert begun(tokens, schema).take(model.tokenizer.encode(written)) == len(model.tokenizer.encode(taken))


@pytest.mark.parametrize("count", [300, pytest.param(1_000, marks=pytest.mark.slow)])
def test_objects_of_many_members_that_may_be_left_out_are_taken(
    model: Model, tokens: GrammarTokens, count: int
) -> None:
    state = begun(tokens, {"type": "object", "properties": {f"a{at}": {"type": "boolean"} for at in range(count)}})
    ids = model.tokenizer.encode(f'{{"a3": true, "a{count - 1}": false}}')
    assert state.take([*ids, 1]) == len(ids) + 1


@pytest.mark.parametrize("pattern", ["(a{100}){100}", "((a|b){50}){100}"])
def test_long_texts_are_matched_to_their_end(model: Model, tokens: GrammarTokens, pattern: str) -> None:
    state, length = begun(tokens, OutputFormat("regex", pattern=pattern)), 5_000 if "b" in pattern else 10_000
    piece = model.tokenizer.encode("a" * 500)
    for _ in range(length // 500):
        assert not state.must_end
        assert state.allowed().any()
        assert state.take(piece) == 500
    assert state.must_end
    assert not state.failure


def doubling(levels: int, keyword: str) -> Schema:
    """A schema whose parts are each named twice in the one before."""
    parts = {f"a{at}": {keyword: [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(levels)}
    return {"$defs": {**parts, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(25, "prefixItems"),
        doubling(25, "allOf"),
        {"type": "array", "items": {"type": "integer"}, "minItems": 100_000, "maxItems": 2**31 - 1},
        {"type": "string", "pattern": "^(a|aa)*b(a|b)*a(a|b){30}$"},
        {"enum": [f"x{at}" for at in range(4_000)]},
    ],
)
def test_a_schema_that_looks_hard_is_read_step_by_step(tokens: GrammarTokens, schema: Schema) -> None:
    state = begun(tokens, schema)
    for _ in range(20):
        if state.must_end:
            break
        forced = state.forced()[:5] or [int(state.allowed().argmax())]
        assert state.take(forced) == len(forced)


def takes(model: Model, tokens: GrammarTokens, schema: Schema, text: str) -> bool:
    """True if an answer may be this text, and end."""
    ids = [*model.tokenizer.encode(text), tokens.ends[0]]
    with closing(begun(tokens, schema)) as state:
        return state.take(ids) == len(ids)


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
def test_a_small_schema_takes_what_jsonschema_takes(
    model: Model, tokens: GrammarTokens, schema: Schema, texts: tuple[str, ...]
) -> None:
    checker = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert {text: takes(model, tokens, schema, text) for text in texts} == {
        text: checker.is_valid(json.loads(text)) and not _names_one_twice(text) for text in texts
    }


def _names_one_twice(text: str) -> bool:
    """True if an object has a name twice; such answers are not counted as any."""
    return text.startswith("{") and len(json.loads(text, object_pairs_hook=list)) > len(json.loads(text))
