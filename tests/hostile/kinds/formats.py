"""Formats for answers: schemas whose keywords and values are of every kind, patterns that explode, tools, choices."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any, get_args

from engine import MINI, catalog
from engine.declared import read
from engine.text.grammar import GrammarState
from engine.text.grammar_tokens import GrammarTokens
from engine.text.output_format import FormatKind, OutputFormat
from engine.text.tokenizer import Tokenizer
from tests.engine.text.formats import PATTERNS, random_schema
from tests.hostile.kind import Attempt, Kind

KEYWORDS = (
    "type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "properties", "required", "items",
    "prefixItems", "additionalProperties", "patternProperties", "minItems", "maxItems", "minLength", "maxLength",
    "pattern", "format", "minimum", "maximum", "exclusiveMaximum", "multipleOf", "uniqueItems", "minProperties",
    "x-guidance", "$id", "$schema", "if", "definitions", "additionalItems", "default",
)  # fmt: skip
PARTS = (
    "(", ")", "[", "]", "{9}", "{999}", "{1,}", "*", "+", "?", "|", "a", "b", ".", "^", "$", "\\", "\\d", "\\b", "(?=",
    "\\1", "é", "[^a]", "[[:alpha:]]", "\\p{L}", "(?i)", "/", "\n", "\ud800", "&&", "~", "(a|aa)+", "\x00", "#/$defs/a",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 10**6, 10**18, 10**400, 0.1, 1e-300, 1e308, float("nan"), float("inf"), "",
    "string", "array",
    "object", "date", "#", "#/$defs/a", "#/properties/a", "#/a/0", "http://x/y", "\ud800",
    "日本", "a" * 3_000, [], {},
)  # fmt: skip


@cache
def _tokens() -> GrammarTokens:
    return GrammarTokens.from_tokenizer(Tokenizer.from_folder(Path(catalog.resolve(MINI))), 128, (1, 8))


def _pattern(random: Random) -> str:
    return "".join(random.choice((*PARTS, *PATTERNS)) for _ in range(random.randint(1, 14)))


def _value(random: Random, depth: int) -> Any:
    match random.randint(0, 6):
        case 0 | 1:
            return random.choice(VALUES)
        case 2:
            return _pattern(random)
        case 3:
            return [_value(random, depth + 1) for _ in range(random.randint(0, 4))] if depth < 6 else []
        case 4:
            return (
                {random.choice("ab/~é日"): _value(random, depth + 1) for _ in range(random.randint(0, 4))}
                if depth < 6
                else {}
            )
    return _schema(random, depth + 1)


def _schema(random: Random, depth: int = 0) -> dict[str, Any]:
    """Good parts, and keywords with what does not belong there."""
    made = random_schema(random, 2) if random.random() < 0.5 else {}
    for _ in range(random.choice((0, 1, 1, 2, 4)) if depth < 6 else 0):
        made[random.choice(KEYWORDS)] = _value(random, depth)
    if random.random() < 0.02:  # deep
        for _ in range(random.randint(2, 200)):
            made = {random.choice(("items", "additionalProperties", "not")): made}
    if random.random() < 0.02:  # each part names the next one twice
        keyword, levels = random.choice(("anyOf", "allOf", "prefixItems")), random.randint(2, 40)
        parts = {f"a{at}": {keyword: [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(levels)}
        made = {"$defs": {**parts, f"a{levels}": made}, "$ref": "#/$defs/a0"}
    return made


# --- what multiplies -------------------------------------------------------------------------------------------------

PRIMES = (7, 97, 997, 4001, 9967, 9973)


def _counted(random: Random, depth: int = 0) -> str:
    """A pattern whose automata are large: repeats in repeats, and choices that are only settled far behind."""
    count = random.choice((2, 7, 31, 97, 997) if depth else (7, 31, 97))
    if depth > 1:
        return random.choice(("a", "[ab]", "(a|b)", r"\w", r"\p{L}", ".", "(a|aa)", "(ab|a|b)"))
    inner = _counted(random, depth + 1)
    match random.randint(0, 5):
        case 0:
            return f"({inner}){{{random.randint(0, count)},{count}}}"
        case 1:
            return f"({inner}{{{count}}})*"
        case 2:
            return f"({inner})*{random.choice('ab')}({_counted(random, depth + 1)}){{{count}}}"
        case 3:
            return f"({inner}|{_counted(random, depth + 1)})+"
        case 4:
            return f"({inner})?" * random.randint(1, 12)
    return f"{inner}{_counted(random, depth + 1)}"


def _part(random: Random, depth: int) -> dict[str, Any]:
    """A schema that is small by itself, and large with others of its kind."""
    match random.randint(0, 9 if depth < 3 else 3):
        case 0:
            return {"type": "integer", "multipleOf": random.choice(PRIMES)}
        case 1:
            divisor = round(random.choice(PRIMES) / 10 ** random.randint(0, 4), 4)
            return {"type": "number", "multipleOf": divisor, "minimum": -random.random() * 10**14, "maximum": 10**14}
        case 2:
            return {"type": "string", "pattern": _counted(random)}
        case 3:
            least = random.choice((0, *PRIMES))
            return {"type": "string", "minLength": least, "maxLength": least + random.choice(PRIMES)}
        case 4:
            return {
                "type": "object",
                "patternProperties": {_counted(random, 1): _part(random, depth + 1) for _ in range(3)},
            }
        case 5:
            names = (f"{random.choice('abc')}{at}" for at in range(random.choice((3, 30, 300))))
            return {"type": "object", "properties": {name: _part(random, 3) for name in names}}
        case 6:
            return {"type": "array", "items": _part(random, depth + 1), "minItems": random.choice(PRIMES)}
        case 7:
            return {"enum": [_counted(random, 2) * random.randint(1, 9) for _ in range(random.choice((2, 90)))]}
        case 8:
            return {"$ref": f"#/$defs/{random.choice('xyz')}"}
    return _together(random, depth + 1)


def _together(random: Random, depth: int) -> dict[str, Any]:
    parts = [_part(random, depth) for _ in range(random.randint(2, 6))]
    made = {random.choice(("allOf", "allOf", "anyOf", "oneOf")): parts}
    return made | (_part(random, depth) if random.random() < 0.3 else {})


def _multiplying(random: Random) -> dict[str, Any]:
    """A format of parts that multiply, as ``OutputFormat`` reads it."""
    if random.random() < 0.3:
        return {"kind": "regex", "pattern": _counted(random)[:4_000]}
    schema = _together(random, 0)
    schema["$defs"] = {name: _part(random, 2) for name in "xyz"}
    if random.random() < 0.3:
        tools = [{"name": f"f{at}", "parameters": _multiplying_object(random)} for at in range(random.randint(1, 3))]
        return {"kind": "tool_calls", "tools": tools}
    return {"kind": "json_schema", "schema": schema}


def _multiplying_object(random: Random) -> dict[str, Any]:
    names = (f"a{at}" for at in range(random.randint(1, 5)))
    return {"type": "object", "properties": {name: _part(random, 0) for name in names}}


def _make(random: Random, folder: Path) -> Attempt:  # noqa: ARG001
    kind, draws = random.choice(get_args(FormatKind)), random.randrange(2**30)
    raw: dict[str, Any] = {
        "kind": kind,
        "schema": _schema(random) if kind == "json_schema" else None,
        "pattern": _pattern(random) if kind == "regex" else "",
        "choices": [_pattern(random) for _ in range(random.randint(0, 6))] if kind == "choices" else [],
        "tools": [],
    }
    if kind == "tool_calls":
        raw["tools"] = [
            {"name": random.choice(("f", "g.h", "a b", "", 3)), "parameters": random.choice((_schema(random), None, 4))}
            for _ in range(random.randint(0, 3))
        ]

    return _attempt(raw, draws)


def _make_multiplying(random: Random, folder: Path) -> Attempt:  # noqa: ARG001
    draws = random.randrange(2**30)
    return _attempt(_multiplying(random), draws)


def _attempt(raw: dict[str, Any], draws: int) -> Attempt:
    def attempt() -> None:
        state = GrammarState(read(OutputFormat, raw, "the format"), _tokens())
        drawn = Random(draws)
        for _ in range(40):
            ids = state.forced()[:8] or state.allowed().nonzero()[0].tolist()
            if state.has_ended or not ids:
                break
            taken = state.take(ids if state.forced() else [drawn.choice(ids)])
            assert taken or state.failure, "what is allowed was not taken"

    return attempt


def _prepare() -> None:
    _tokens()


KINDS = (
    Kind("formats", _make, prepare=_prepare),
    Kind("multiplying-formats", _make_multiplying, prepare=_prepare),
)
