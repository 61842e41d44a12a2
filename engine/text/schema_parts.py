"""The schemas in a JSON schema, and the references between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
ONE = ("items", "additionalProperties", "additionalItems")
MEMBERS = ("properties", "patternProperties")
KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
"""The types of JSON's values but null."""


def inner_schemas(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yields the schemas in a schema, each with its place; definitions are looked at by their references."""
    if not isinstance(schema, Mapping):
        return
    for name in (*LISTS, *ONE, *MEMBERS):
        value = schema.get(name)
        if isinstance(value, list):
            yield from ((f"{name}/{index}", one) for index, one in enumerate(value))
        elif isinstance(value, Mapping) and name not in ONE:
            yield from ((f"{name}/{escaped(key)}", one) for key, one in value.items())
        elif name in schema:
            yield name, value


def changed(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns a copy of a schema with each schema in it changed once; its definitions stay."""
    copy = dict(schema)
    for name in (*LISTS, *ONE, *MEMBERS):
        value = schema.get(name)
        if isinstance(value, list):
            copy[name] = [change(one) for one in value]
        elif isinstance(value, Mapping) and name not in ONE:
            copy[name] = {key: change(one) for key, one in value.items()}
        elif name in schema:
            copy[name] = change(value)
    return copy


def references_in(schema: Any) -> list[str]:
    """Returns all references in a schema, without its definitions."""
    references, waiting = list[str](), [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping) and "$ref" in one:
            references.append(one["$ref"])
        waiting += [inner for _, inner in inner_schemas(one)]
    return references


def schema_at(root: Any, reference: str) -> Any:
    """Returns the schema at a reference that was checked."""
    schema: Any = root
    for name in reference.split("/")[1:]:
        schema = schema[int(name)] if isinstance(schema, list) else schema[name.replace("~1", "/").replace("~0", "~")]
    return schema


def looked_up(root: Any, reference: str) -> Any:
    """Returns what stands at any reference; None if it is not one within the schema."""
    with suppress(LookupError, TypeError, ValueError):
        return schema_at(root, reference) if reference == "#" or reference.startswith("#/") else None


def escaped(name: str) -> str:
    """Returns a name as it stands in a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
