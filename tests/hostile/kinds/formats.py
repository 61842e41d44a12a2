"""Formats for answers: schemas whose keywords and values are of every kind, patterns that explode, tools, choices."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from engine import SKILLS, catalog
from engine.text.grammar import Grammar, GrammarTokens
from engine.text.output_format import KINDS as FORMAT_KINDS
from engine.text.output_format import OutputFormat
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
    return GrammarTokens.of(Tokenizer.from_folder(Path(catalog.resolve(SKILLS))), 128, (1, 8))


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


def _make(random: Random, folder: Path) -> Attempt:  # noqa: ARG001
    kind, draws = random.choice(FORMAT_KINDS), random.randrange(2**30)
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

    def attempt() -> None:
        state = Grammar.of(OutputFormat.from_json(raw), _tokens()).begin()
        drawn = Random(draws)
        for _ in range(40):
            ids = state.forced()[:8] or [token for token in range(128) if state.allowed()[token]]
            if state.has_ended or not ids:
                break
            taken = state.take(ids if state.forced() else [drawn.choice(ids)])
            assert taken, "what is allowed was not taken"

    return attempt


def _prepare() -> None:
    _tokens()


KINDS = (Kind("formats", _make, prepare=_prepare),)
