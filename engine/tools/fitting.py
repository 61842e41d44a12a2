"""Checks whether the arguments of a call fit the schema of its tool.

The schema is a stranger's: what may take for ever is left out, and the rest has a time limit. What is left out never
makes arguments a misfit; the server checks them as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.errors import SafelightError, quoted

MOST_SECONDS = 1.0  # of a check
MOST_SAID = 200  # characters of a reason
_LEFT_OUT = frozenset(
    (
        *("pattern", "patternProperties", "uniqueItems", "unevaluatedItems", "unevaluatedProperties"),  # may not end
        *("$ref", "$dynamicRef"),  # may go round in circles or elsewhere
        *("format", "dependentRequired"),
    )
)
_LIMITS = frozenset(
    (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"),
    )
)
_VALUES = frozenset(("type", "required", "enum", "const"))
_ONE = frozenset(("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames"))
_SEVERAL = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED = frozenset(("properties", "dependentSchemas"))  # schemas by names that may be any word
_KNOWN = _LEFT_OUT | _LIMITS | _VALUES | _ONE | _SEVERAL | _NAMED
_WIDER = {"not": "not", "if": "if", "contains": "maxContains", "patternProperties": "additionalProperties"}
"""What must not be checked once a keyword takes more values than before."""


def misfit(arguments: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str:
    """Returns why arguments do not fit a schema, in one sentence; empty if they do, or if that takes too long."""
    from jsonschema.exceptions import best_match  # half a second, at the first call

    try:
        plain, _ = _eased(schema or {})
        error = best_match(_limited(time.monotonic() + MOST_SECONDS)(plain).iter_errors(arguments))  # type: ignore[no-untyped-call]
    except Exception:  # whatever a stranger's schema leads to: the server checks what it asked for
        return ""
    if error is None:
        return ""
    place = "/".join(map(str, error.absolute_path))
    return f"{quoted(place)}: {error.message[:MOST_SAID]}" if place else error.message[:MOST_SAID]


def _limited(deadline: float) -> Any:
    """Returns the class of validators that raise ``SafelightError`` after a deadline."""
    from jsonschema.validators import Draft202012Validator, extend  # as above

    def limited(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def checked(*given: Any) -> Iterator[Any]:
            if time.monotonic() > deadline:
                raise SafelightError("the check takes too long")
            yield from check(*given) or ()

        return checked

    checks = {name: limited(check) for name, check in Draft202012Validator.VALIDATORS.items()}
    return extend(Draft202012Validator, checks)  # type: ignore[no-untyped-call]


def _eased(schema: Any) -> tuple[Any, bool]:
    """Returns a schema without what is left out, and True if it takes more values than before."""
    if isinstance(schema, list):
        eased = [_eased(inner) for inner in schema]
        return [inner for inner, _ in eased], any(is_wider for _, is_wider in eased)
    if not isinstance(schema, Mapping):
        return schema, False
    found, wider = dict[str, Any](), set[str]()  # wider: the keywords that take more
    for name, inner in schema.items():
        is_wider = False
        if name in _NAMED and isinstance(inner, Mapping):
            eased, is_wider = _eased(list(inner.values()))
            found[name] = dict(zip(inner, eased, strict=True))
        elif (name in _ONE and isinstance(inner, Mapping | bool)) or (name in _SEVERAL and inner and _is_list(inner)):
            found[name], is_wider = _eased(inner)
        elif _is_value(name, inner):
            found[name] = inner
        else:  # what is not written as it should be is the server's affair, too
            is_wider = name in _KNOWN
        if is_wider:
            wider.add(name)
    for name in wider & _WIDER.keys():
        found.pop(_WIDER[name], None)
    if "oneOf" in wider & found.keys():  # several may fit now
        found.setdefault("anyOf", found.pop("oneOf"))
    return found, bool(wider)


def _is_list(value: Any, kind: type = object) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


def _is_value(name: str, value: Any) -> bool:
    """Returns True if a keyword that holds no schema has a value as it should be."""
    match name:
        case "const":
            return True
        case "enum":
            return _is_list(value)
        case "type":
            return isinstance(value, str) or _is_list(value, str)
        case "required":
            return _is_list(value, str)
    return name in _LIMITS and isinstance(value, int | float) and not isinstance(value, bool)
