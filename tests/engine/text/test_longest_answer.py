"""The longest answer of a format: no text that its grammar takes is longer, and the longest one is found."""

from __future__ import annotations

import json
import time
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from engine.text.grammar import _TIGHT
from engine.text.longest_answer import MOST, longest_answer
from engine.text.output_format import OutputFormat
from engine.text.schema_check import checked_schema
from tests.engine.text.formats import closed, random_schema

Schema = dict[str, Any]
END = 256


class Bytes:
    """A vocabulary of single bytes."""

    bos_token_id, eos_token_id, special_token_ids = None, END, (END,)
    tokens = (*(bytes([one]) for one in range(END)), b"<end>")

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


@cache
def library() -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(Bytes()), eos_token=[END])


def matcher(wanted: OutputFormat) -> LLMatcher:
    if wanted.schema is None:
        source = LLMatcher.grammar_from_lark(f"start: TEXT\nTEXT: /{wanted.pattern}/")
    else:
        cleaned = json.dumps(checked_schema(wanted.schema, lambda _: ""))
        source = LLMatcher.grammar_from_json_schema(cleaned, overrides=_TIGHT)
    return LLMatcher(library(), source, log_level=0)


def takes(wanted: OutputFormat, text: str) -> bool:
    made, ids = matcher(wanted), list(text.encode())
    return bool(made.try_consume_tokens(ids) == len(ids) and made.is_accepting())


def written(wanted: OutputFormat, random: Random, most: int) -> bytes:
    """A text that the grammar takes, which likes escapes and dislikes ends; broken off after ``most`` bytes."""
    made, found = matcher(wanted), b""
    assert not made.is_error(), made.get_error()
    while len(found) <= most and not made.is_stopped():
        bits = np.unpackbits(np.frombuffer(made.compute_bitmask(), dtype=np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits[:END]).tolist()
        if not allowed:
            break
        longer = [one for one in allowed if chr(one) not in '"]}'] or allowed
        escapes = [one for one in allowed if chr(one) in "\\u,-"]
        byte = random.choice(random.choices((escapes or longer, longer, allowed), (4, 4, 1))[0])
        assert made.try_consume_tokens([byte]) == 1
        found += bytes([byte])
    return found


def of(schema: Any) -> OutputFormat:
    return OutputFormat("json_schema", schema)


def test_no_random_document_is_longer_than_its_bound() -> None:
    bounded = reached = 0
    for number in range(100):
        random = Random(number)
        wanted = of(closed(random_schema(random), random))
        most = longest_answer(wanted)
        if most is None or matcher(wanted).is_error():
            continue
        bounded += 1
        sizes = [len(written(wanted, random, most)) for _ in range(4)]
        assert max(sizes) <= most, wanted.schema
        reached += max(sizes) >= 0.8 * most
    assert bounded > 60
    assert reached > bounded // 2


SIGNS = (
    "a", "Z", "0", "é", "-", ".", "/", '"', "😀", "[a-c]", "[^a]", "[éü]", "[0-9A-F]", "[.!?]", "[!-~]", "[[:alpha:]]",
    "[a-z&&[b-d]]", r"\.", r"\d", r"\w", r"\s", r"\n", r"\\", r"\p{L}", r"\x41", r"\u{1F600}",
)  # fmt: skip


def pattern_of(random: Random, depth: int = 0) -> str:
    """A random pattern without ``*`` and ``+``."""
    kind = random.random() if depth < 4 else 0.0
    if kind < 0.45:
        return random.choice(SIGNS)
    parts = [pattern_of(random, depth + 1) for _ in range(random.randint(1, 3))]
    if kind < 0.7:
        return "".join(parts)
    if kind < 0.85:
        return random.choice(("(", "(?:", f"(?P<g{random.random()}>".replace(".", ""))) + "|".join(parts) + ")"
    return f"(?:{parts[0]}){random.choice(('?', '??', '{2}', '{1,3}', '{0,2}', '{ 2 }', '{3}?', '{0}'))}"


def test_no_random_text_of_a_pattern_is_longer_than_its_bound() -> None:
    bounded = 0
    for number in range(400):
        random = Random(number)
        pattern = pattern_of(random)
        wanted = (
            of({"type": "string", "pattern": f"^{pattern}$"}) if number % 2 else OutputFormat("regex", pattern=pattern)
        )
        most = longest_answer(wanted)
        if most is not None and not matcher(wanted).is_error():
            bounded += 1
            assert len(written(wanted, random, most)) <= most, pattern
    assert bounded > 200


CODE = {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}
PLACE = {"type": "object", "properties": {"x": {"enum": [1, 20]}, "y": {"type": "null"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "longest"),
    [
        ({"type": "boolean"}, "false"),
        ({"type": ["null", "boolean"]}, "false"),
        ({"enum": ["red", "blue", 'say "x"']}, r'"say \"x\""'),
        ({"const": "a\n\x7fü"}, r'"a\u000a\u007fü"'),
        ({"const": {"k": ["v", {}], "π": -7}}, '{"k": ["v", {}], "π": -7}'),
        ({"const": 999999999999999999}, "1000000000000000000"),
        ({"enum": [1e-7, 4]}, "0.0000001"),
        ({"const": 1e21}, "1" + "0" * 21),
        ({"type": "string", "maxLength": 2}, r'"\u0001\u007f"'),
        ({"type": "string", "maxLength": 9, "enum": ["abc", "ab"]}, '"abc"'),
        ({"type": "string", "format": "ipv4"}, '"255.255.255.255"'),
        ({"type": "string", "format": "ipv6"}, f'"{":".join(["ffff"] * 8)}"'),
        ({"type": "string", "format": "date", "maxLength": 50}, '"2026-11-26"'),
        ({"type": "string", "format": "uuid"}, '"01234567-89ab-cdef-0123-456789abcdef"'),
        (CODE, '"AB-123"'),
        ({"type": "string", "pattern": r"^(?:\d|\w\.){2}$"}, '"a.b."'),
        ({"type": "integer", "minimum": -50, "maximum": 9}, "-50"),
        ({"type": "integer", "exclusiveMinimum": 8, "exclusiveMaximum": 100}, "99"),
        ({"type": "integer", "minimum": -0.5, "maximum": 9.5}, "9"),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 3}, "[false, false, false]"),
        ({"type": "array", "maxItems": 0}, "[]"),
        ({"type": "array", "prefixItems": [{"type": "null"}, CODE], "items": False}, '[null, "AB-123"]'),
        ({"type": "array", "prefixItems": [{"type": "null"}, False, CODE]}, "[null]"),
        ({"type": "array", "items": [{"type": "null"}], "additionalItems": CODE, "maxItems": 2}, '[null, "AB-123"]'),
        (PLACE, '{"x": 20, "y": null}'),
        ({**PLACE, "required": ["y"], "properties": {**PLACE["properties"], "z": False}}, '{"x": 20, "y": null}'),
        ({"type": "object", "propertyNames": {"enum": ["é"]}, "additionalProperties": CODE}, '{"é": "AB-123"}'),
        ({"anyOf": [{"type": "null"}, PLACE]}, '{"x": 20, "y": null}'),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, "false"),
        ({"allOf": [{"type": "string", "maxLength": 1}, {"enum": ["ab", "é"]}]}, '"ab"'),  # "é" alone fits both
        ({"$defs": {"c": CODE, "two": {"type": "array", "items": {"$ref": "#/$defs/c"}, "maxItems": 2}},
          "$ref": "#/$defs/two"}, '["AB-123", "AB-123"]'),
    ],
)  # fmt: skip
def test_the_longest_document_has_as_many_bytes(schema: Schema, longest: str) -> None:
    assert longest_answer(of(schema)) == len(longest.encode())
    assert takes(of(schema), longest) or "allOf" in schema


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        ("(yes|no|maybe)[.!]?", "maybe!"),
        ("[a-c]{3,9}", "a" * 9),
        (r"\+[0-9]{1,3}(?: [0-9]{2}){2,4}", "+123 12 34 56 78"),
        (r"(?P<year>[0-9]{4})(-[0-9]{2})?", "2026-11"),
        ("[^a]{2}|abc", "😀😀"),
        ("a{ 20 }", "a" * 20),
        ("((ab){2}){0,3}", "ab" * 6),
    ],
)
def test_the_longest_text_of_a_pattern_has_as_many_bytes(pattern: str, longest: str) -> None:
    wanted = OutputFormat("regex", pattern=pattern)
    assert longest_answer(wanted) == len(longest.encode())
    assert takes(wanted, longest)


def test_the_longest_choice_is_counted_in_bytes() -> None:
    assert longest_answer(OutputFormat("choices", choices=("yes", "nö", "π²"))) == 4


LIST = {"type": "object", "properties": {"n": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["n"],
        "additionalProperties": False}  # fmt: skip


def test_a_schema_that_contains_itself_ends_where_its_grammar_does() -> None:
    most = longest_answer(of(LIST))
    assert most is not None
    depths = [depth for depth in range(30) if takes(of(LIST), '{"n": ' * depth + '{"n": null}' + "}" * depth)]
    assert max(depths) * len('{"n": }') + len('{"n": null}') == most


@pytest.mark.parametrize(
    "schema",
    [
        {}, {"type": "string"}, {"maxLength": 3}, {"type": "integer", "minimum": 3}, {"type": "number", "maximum": 3},
        {"type": "number", "minimum": 0, "maximum": 1}, {"type": "object"}, {"anyOf": []},
        {"type": "object", "properties": {"a": {"type": "null"}}}, {"type": "array", "items": {"type": "null"}},
        {"type": "object", "patternProperties": {"^a": {"type": "null"}}, "additionalProperties": False},
        {"type": "string", "pattern": "[a-z]{3}"}, {"type": "string", "pattern": "^a|b$"},
        {"type": "string", "pattern": r"^a\$"}, {"type": "string", "format": "email"}, {"type": "array", "maxItems": 3},
        {"$ref": "#/$defs/gone"}, {"not": {}}, {"const": 10**400},
        {"type": "string", "maxLength": MOST},
    ],
)  # fmt: skip
def test_what_has_no_bound_is_said_to_have_none(schema: Schema) -> None:
    assert longest_answer(of(schema)) is None


@pytest.mark.parametrize("pattern", ["a*", "(ab)+", "a{3,}", "(?i)k", "(?=a)b", "(a", "a)", "{", "a{}", "[a-z]+?"])
def test_a_pattern_that_is_not_simple_has_no_bound(pattern: str) -> None:
    assert longest_answer(OutputFormat("regex", pattern=pattern)) is None


def test_other_kinds_have_no_bound() -> None:
    for wanted in (OutputFormat("json_object"), OutputFormat("tool_calls", tools=({"name": "f", "parameters": {}},))):
        assert longest_answer(wanted) is None


def nested(depth: int, many: int) -> Schema:
    schema: Schema = {"type": "boolean"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "maxItems": many}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        nested(30, 2**31 - 1),
        {"$defs": {f"a{at}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/a{at + 1}"}] * 2, "items": False}
                   for at in range(40)} | {"a40": {"type": "null"}}, "$ref": "#/$defs/a0"},
        {"$defs": {f"a{at}": {"anyOf": [{"$ref": f"#/$defs/a{to}"} for to in range(20)]} for at in range(20)},
         "type": "array", "items": {"$ref": "#/$defs/a0"}, "maxItems": 10**6},
        {"enum": ["x" * 60] * 1_000},
        {"const": json.loads("[" * 400 + "]" * 400)},
        {"type": "object", "properties": {f"a{at}": nested(3, 9) for at in range(400)}, "additionalProperties": False},
    ],
)  # fmt: skip
def test_a_hostile_schema_takes_little_time(schema: Schema) -> None:
    started = time.process_time()
    longest_answer(of(schema))
    assert time.process_time() - started < 1.0
