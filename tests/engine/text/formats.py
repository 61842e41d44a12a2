"""Random formats for answers, and whether a text fits one, by libraries that the engine does not take."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

from jsonschema import Draft202012Validator

from engine.text.output_format import OutputFormat

Schema = dict[str, Any]
KEYS = ("name", "size", "größe", "naß", "π", "a b", "x/y", "~t", "ü", "§no"[1:], "kind", "to-do", 'q"q', "b\\s", "«é»")
WORDS = ("red", "blue", "two words", "é", "naïve"[:2], "a\nb", 'say "x"', "→", "", "0", "null", "ß·ß")
PATTERNS = ("^[a-z]{2,6}$", "^[A-Z][a-z]+$", r"^\d{3}-\d{2}$", "^(ab|cd)*$", "[éü]", "^x", "^[^a-z]*$")
REGEXES = (
    "[0-9]+", "(yes|no|maybe)[.!]?", r"[A-Z][a-z]* [A-Z][a-z]*", r"\d{4}-\d{2}-\d{2}", "[a-c]{3,9}", "(ab)*c",
    r"The answer is -?\d+\.", r"[^\n]{1,20}\n", "[éüß]+x", r"\w+@\w+\.(com|org)", "", "a|b|", r"\{\d+(, \d+)*\}",
)  # fmt: skip


def random_schema(random: Random, depth: int = 0) -> Schema:
    """A schema that some text fulfils."""
    scalars = ("string", "string", "integer", "number", "boolean", "null", "enum", "const")
    kinds = ("object", "object", "array", "anyOf", *scalars) if depth < 3 else scalars
    kind = "object" if depth == 0 and random.random() < 0.7 else random.choice(kinds)
    return _MADE[kind](random, depth) if kind in _MADE else {"type": kind}


def _object(random: Random, depth: int) -> Schema:
    keys = random.sample(KEYS, random.randint(0 if depth else 1, 4))
    made: Schema = {"type": "object", "properties": {key: random_schema(random, depth + 1) for key in keys}}
    made["required"] = [key for key in keys if random.random() < 0.6]
    if random.random() < 0.8:
        made["additionalProperties"] = False
    elif random.random() < 0.5:
        made["additionalProperties"] = random_schema(random, 3)
    return made


def _array(random: Random, depth: int) -> Schema:
    least = random.randint(0, 3)
    made: Schema = {"type": "array", "items": random_schema(random, depth + 1), "minItems": least}
    if random.random() < 0.7:
        made["maxItems"] = least + random.randint(0, 3)
    if random.random() < 0.2:
        made["prefixItems"] = [random_schema(random, 3) for _ in range(random.randint(1, 2))]
    return made


def _string(random: Random, _depth: int) -> Schema:
    made: Schema = {"type": "string"}
    match random.randint(0, 5):
        case 0:
            made["pattern"] = random.choice(PATTERNS)
        case 1:
            made["minLength"] = random.randint(0, 6)
            made["maxLength"] = made["minLength"] + random.randint(0, 8)
        case 2:
            made["maxLength"] = random.randint(0, 12)
        case 3:
            made["format"] = random.choice(("date", "time", "uuid", "ipv4", "email"))
    return made


def _integer(random: Random, _depth: int) -> Schema:
    low = random.randint(-200, 200)
    made: Schema = {"type": "integer"}
    if random.random() < 0.5:
        made[random.choice(("minimum", "exclusiveMinimum"))] = low
    if random.random() < 0.5:
        made[random.choice(("maximum", "exclusiveMaximum"))] = low + random.randint(2, 300)
    if random.random() < 0.15:
        made = {"type": "integer", "multipleOf": random.randint(2, 60)}
    return made


def _number(random: Random, _depth: int) -> Schema:
    low = round(random.uniform(-20, 20), random.randint(0, 3))
    made: Schema = {"type": "number"}
    if random.random() < 0.6:
        made[random.choice(("minimum", "exclusiveMinimum"))] = low
    if random.random() < 0.6:
        made[random.choice(("maximum", "exclusiveMaximum"))] = low + random.randint(1, 30) / 4
    return made


def _enum(random: Random, _depth: int) -> Schema:
    values: list[Any] = [
        *random.sample(WORDS, random.randint(1, 4)),
        *random.sample((1, 2.5, None, True, [1], {"a": 0}), 2),
    ]
    random.shuffle(values)
    return {"enum": values}


def _const(random: Random, _depth: int) -> Schema:
    return {"const": random.choice((*WORDS, 7, -0.5, None, False, [], {"k": ["v", {}]}))}


def _any_of(random: Random, depth: int) -> Schema:
    return {"anyOf": [random_schema(random, depth + 1) for _ in range(random.randint(2, 3))]}


_MADE = {
    "object": _object, "array": _array, "string": _string, "integer": _integer, "number": _number, "enum": _enum,
    "const": _const, "anyOf": _any_of,
}  # fmt: skip


def random_format(random: Random, number: int) -> OutputFormat:
    """Seven schemas in ten, then regular expressions, choices and any object."""
    match number % 10:
        case 7:
            return OutputFormat("regex", pattern=random.choice([one for one in REGEXES if one]))
        case 8:
            words = [word for word in WORDS if word]
            return OutputFormat("choices", choices=tuple(random.sample(words, random.randint(1, 5))))
        case 9:
            return OutputFormat("json_object")
    return OutputFormat("json_schema", random_schema(random))


def problem(wanted: OutputFormat, text: str) -> str:
    """Why a text does not fit a format; empty if it does."""
    if wanted.kind == "regex":
        return "" if re.fullmatch(wanted.pattern, text) else "it does not match"
    if wanted.kind == "choices":
        return "" if text in wanted.choices else "it is no choice"
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"it is no JSON: {error}"
    if wanted.kind == "json_object":
        return "" if isinstance(value, dict) else "it is no object"
    schema: Any = wanted.schema
    checks = Draft202012Validator.FORMAT_CHECKER
    return "; ".join(error.message for error in Draft202012Validator(schema, format_checker=checks).iter_errors(value))
