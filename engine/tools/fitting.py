"""Checks whether the arguments of a call fit the schema of its tool.

Patterns are left out: a server's regular expression may take for ever on a text, and none decides what is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import quoted

_LEFT_OUT = frozenset(("pattern", "patternProperties", "format", "$ref", "$dynamicRef", "$schema", "$id"))
"""References may go round in circles or elsewhere; what they name is not checked."""
_NAMED = ("properties", "$defs", "definitions", "dependentSchemas")  # schemas by names that may be any word
_VALUES = ("enum", "const", "default", "examples")
MOST_SAID = 200  # characters of a reason


def misfit(arguments: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str:
    """Returns why arguments do not fit a schema, in one sentence; empty if they do."""
    from jsonschema import Draft202012Validator, SchemaError, ValidationError  # half a second, at the first call

    plain = _without_patterns(schema or {})
    try:
        Draft202012Validator.check_schema(plain)
        Draft202012Validator(plain).validate(arguments)
    except ValidationError as error:
        place = "/".join(map(str, error.absolute_path))
        return f"{quoted(place)}: {error.message[:MOST_SAID]}" if place else error.message[:MOST_SAID]
    except (SchemaError, RecursionError):
        return ""  # the server checks what it asked for
    return ""


def _without_patterns(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_patterns(inner) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: inner for name, inner in schema.items() if name not in _LEFT_OUT}
    for name, inner in found.items():
        if name in _NAMED and isinstance(inner, Mapping):
            found[name] = {key: _without_patterns(member) for key, member in inner.items()}
        elif name not in _VALUES:
            found[name] = _without_patterns(inner)
    return found
