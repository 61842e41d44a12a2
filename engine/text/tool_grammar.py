"""Tool calls as the model writes them, ``<|tool_call>call:NAME{key:VALUE,…}<tool_call|>``, as a Lark grammar.

A model whose tokenizer has ``<tool_call>`` in its place writes ``{"name": …, "arguments": …}`` there.

``engine.text.tool_arguments`` defines VALUE. What a grammar of these values cannot hold (a text's ``format``, members
without names, ``allOf``) is JSON in their place, under the same rules as an answer of JSON.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.errors import SafelightError, quoted
from engine.text.schema_check import Lacks, checked_schema
from engine.text.schema_parts import changed, references_in, schema_at
from engine.text.tags import CALL, CALL_END, JSON_CALL, JSON_CALL_END, MARK

MAX_AT_ONCE = 32  # calls in one answer
_NAME = re.compile(r"[\w./-]{1,128}", re.ASCII)
_BARE_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_NO_TAG = r"~/(?s:.*)(<\||\|>|<\/?think>)(?s:.*)/"
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_HELD = frozenset((*_NUMBERS, "type", "$defs", "properties", "required", "additionalProperties", "items", "minItems",
                   "maxItems", "minLength", "maxLength", "pattern"))  # fmt: skip
_STYLE = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}  # of JSON in a call
_JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}  # of a call in JSON
_ALL = ("string", "number", "boolean", "null")


def tool_grammar(
    tools: Sequence[Mapping[str, Any]],
    token_id: Callable[[str], int | None],
    lacks: Lacks,
    only: str | None,
    *,
    is_strict: bool = True,
) -> str:
    """Returns a grammar of one or more calls.

    Args:
        tools: each with ``name`` and ``parameters``, a JSON schema, or with both in ``function``. Without any, any call
            fits.
        token_id: of a tag; None if the tokenizer has none, and it is written in letters.
        lacks, only: as in ``checked_schema``; ``only`` without anchors.
        is_strict: refuse tools whose arguments cannot be held to their schema; else theirs are free.

    Raises:
        SafelightError: an invalid name, or an unsupported schema; names the tool.
    """
    grammar = _Rules(token_id, lacks, only)
    calls = [grammar.call(tool, is_strict=is_strict) for tool in tools] or [grammar.any_call()]
    more = f'("\\n"? call){{0,{MAX_AT_ONCE - 1}}}' if grammar.is_json else f"call{{0,{MAX_AT_ONCE - 1}}}"
    return "\n".join((f"start: call {more}", f"call: {' | '.join(calls)}", *grammar.rules, ""))


class _NothingError(SafelightError):
    """A schema that allows no value."""


class _Rules:
    """The grammar's rules, collected as they are made."""

    def __init__(self, token_id: Callable[[str], int | None], lacks: Lacks, only: str | None) -> None:
        self.rules: list[str] = []
        self._token_id, self._lacks, self._only = token_id, lacks, only
        self._root: Mapping[str, Any] = {}
        self._referred: dict[str, str | None] = {}  # the rules of references of this tool; None: no value is allowed
        self._tool = ""
        self.is_json = token_id(CALL) is None and token_id(JSON_CALL) is not None

    def call(self, tool: Mapping[str, Any], *, is_strict: bool = True) -> str:
        """Returns the rule of a tool's call; see ``tool_grammar``."""
        try:
            return self._call(tool)
        except SafelightError:
            if is_strict:
                raise
        except (TypeError, ValueError, AttributeError, LookupError, RecursionError):
            if is_strict:
                raise SafelightError(f"{self._tool} are no JSON schema, or one that is nested too deeply") from None
        return self.any_call()

    def any_call(self) -> str:
        """Returns the rule of a call of anything."""
        tags = (JSON_CALL, JSON_CALL_END) if self.is_json else (CALL, CALL_END)
        tokens = [self._token_id(tag) for tag in tags]
        if None in tokens:  # the tags are letters, and so the text may hold them
            return self._rule(f"{json.dumps(tags[0])} /(?s:.*)/")
        return self._rule(f"<[{tokens[0]}]> <[^{tokens[0]},{tokens[1]}]>* <[{tokens[1]}]>")

    def _call(self, tool: Mapping[str, Any]) -> str:
        function = tool.get("function", tool)
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SafelightError(f"a tool is called {quoted(name)}; names have letters, digits, ., /, _ and - only")
        schema = function.get("parameters") or {"type": "object", "properties": {}}
        self._tool, self._referred = f"the parameters of the tool {quoted(name)}", {}
        if not isinstance(schema, Mapping):
            raise SafelightError(f"{self._tool} must be a schema, not {quoted(schema)}")
        try:
            self._root = checked_schema(schema, self._lacks)
        except SafelightError as error:
            raise SafelightError(f"{self._tool}: {error}") from None
        if self.is_json:
            members = {
                "name": {"const": name},
                "arguments": {key: one for key, one in self._as_object().items() if key != "$defs"},
            }
            whole = {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}
            written = self._json(whole, _JSON_STYLE)
            return self._rule(f'{self._tag(JSON_CALL)} "\\n" {written} "\\n" {self._tag(JSON_CALL_END)}')
        rule = self._value(self._as_object(), "")
        return self._rule(f"{self._tag(CALL)} {json.dumps(f'call:{name}')} {rule} {self._tag(CALL_END)}")

    def _rule(self, body: str) -> str:
        self.rules.append(f"r{len(self.rules)}: {body}")
        return f"r{len(self.rules) - 1}"

    def _tag(self, tag: str) -> str:
        token = self._token_id(tag)
        return json.dumps(tag) if token is None else f"<[{token}]>"

    def _value(self, schema: Any, place: str) -> str:
        if schema is True or schema == {}:
            schema = {"type": list(_ALL)}
        if schema is False:
            raise self._nothing(place)
        if set(schema) - {"$defs"} == {"$ref"}:
            return self._reference(schema["$ref"], place)
        for name in ("anyOf", "oneOf", "allOf"):
            if set(schema) - {"$defs"} == {name} and (name != "allOf" or len(schema[name]) == 1):
                return self._one_of(schema[name], f"{place}/{name}")
        if set(schema) - {"$defs", "type"} in ({"const"}, {"enum"}):
            values = [schema["const"]] if "const" in schema else schema["enum"]
            if not values:
                raise self._nothing(place)
            return self._rule(" | ".join(self._literal(value) for value in values))
        kinds = schema.get("type", "object" if "properties" in schema else list(_ALL))
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if not _is_native(schema, kinds):
            return self._json(schema)
        return self._rule(" | ".join(self._of_type(kind, schema, place) for kind in kinds))

    def _of_type(self, kind: str, schema: Mapping[str, Any], place: str) -> str:
        match kind:
            case "object":
                return self._object(schema, place)
            case "array":
                return self._array(schema, place)
            case "string":
                return self._string(schema, place)
            case "boolean":
                return '("true" | "false")'
            case "null":
                return '"null"'
        bounds = {name: schema[name] for name in _NUMBERS if name in schema}
        return f"%json {json.dumps({'type': kind, **bounds})}"

    def _as_object(self) -> Mapping[str, Any]:
        """Returns the schema of the tool's parameters as that of an object, without members if none are described."""
        schema: Any = self._root
        for _ in range(1 + len(self._root.get("$defs", ()))):  # which may refer to one another without end
            if isinstance(schema, Mapping) and set(schema) - {"$defs", "type"} == {"$ref"}:
                schema = schema_at(self._root, schema["$ref"])
        if not isinstance(schema, Mapping):
            raise self._nothing("")
        return {**schema, "type": "object"} if set(schema) - {"$defs", "type"} else {"type": "object", "properties": {}}

    def _one_of(self, schemas: Sequence[Any], place: str) -> str:
        alternatives = list[str]()
        for index, one in enumerate(schemas):
            with contextlib.suppress(_NothingError):
                alternatives.append(self._value(one, f"{place}/{index}"))
        if not alternatives:
            raise self._nothing(place)
        return self._rule(" | ".join(alternatives))

    def _reference(self, reference: str, place: str) -> str:
        if reference not in self._referred:
            name = self._referred[reference] = self._rule('""')  # known before it is made: a schema may contain itself
            index = len(self.rules) - 1
            try:
                self.rules[index] = f"{name}: {self._value(schema_at(self._root, reference), place)}"
            except _NothingError:
                self._referred[reference] = None
        rule = self._referred[reference]
        if rule is None:
            raise self._nothing(place)
        return rule

    def _json(self, schema: Mapping[str, Any], style: Mapping[str, Any] = _STYLE) -> str:
        """Returns the rule of a value as JSON."""
        shared, waiting = dict[str, Any](), list(references_in(schema))
        while waiting:
            name = waiting.pop().removeprefix("#/$defs/")
            if name not in shared:
                shared[name] = self._root["$defs"][name]
                waiting += references_in(shared[name])
        whole = {"x-guidance": style, **self._writable(schema), "$defs": {}}
        whole["$defs"] = {name: self._writable(one) for name, one in shared.items()}
        return self._rule(f"%json {json.dumps(whole)}")

    def _writable(self, schema: Any) -> Any:
        """Returns a schema whose texts hold no tag, and only what the model can write."""
        if not isinstance(schema, Mapping):
            return schema
        writable = changed(schema, self._writable)
        if "pattern" in schema and self._only is not None:
            writable["allOf"] = [*writable.get("allOf", ()), {"pattern": f"^{self._only}$"}]
        elif (
            not self.is_json
            and schema.get("type") == "string"
            and not schema.keys() & {"pattern", "format", "enum", "const"}
        ):
            writable["pattern"] = "^[^<]*$"
        return writable

    def _literal(self, value: Any) -> str:
        if isinstance(value, str):
            mark = self._tag(MARK)
            return f"{mark} {json.dumps(value)} {mark}" if value else f"{mark} {mark}"
        if isinstance(value, list):
            return " ".join(('"["', ' "," '.join(map(self._literal, value)), '"]"'))
        if isinstance(value, Mapping):
            members = (f'{self._key(key)} ":" {self._literal(one)}' for key, one in value.items())
            return " ".join(('"{"', ' "," '.join(members), '"}"'))
        return json.dumps(json.dumps(value))

    def _string(self, schema: Mapping[str, Any], place: str) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength", "")
        if most != "" and most < least:
            raise self._wrong(place, f"has minLength {least} above maxLength {most}")
        parts = [f"/(?s:.{{{least},{most}}})/", "/[^<]*/" if self._token_id(MARK) is None else _NO_TAG]
        if "pattern" in schema:
            body = schema["pattern"].replace("/", r"\/").replace(r"\\/", r"\/").replace("\n", r"\n")
            begins, ends = body.startswith("^"), body.endswith("$") and not body.endswith(r"\$")
            body = body[begins : len(body) - ends]
            parts.append(f"/{'' if begins else '(?s:.*)'}({body}){'' if ends else '(?s:.*)'}/")
        if self._only is not None:
            parts.append(f"/{self._only}/")
        name = f"T{len(self.rules)}"
        self.rules.append(f"{name}: {' & '.join(parts)}")
        return f"{self._tag(MARK)} {name} {self._tag(MARK)}"

    def _array(self, schema: Mapping[str, Any], place: str) -> str:
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most is not None and most < least:
            raise self._wrong(place, f"has minItems {least} above maxItems {most}")
        try:
            item = self._value(schema.get("items", True), f"{place}/items")
        except _NothingError:
            if least:
                raise
            most = 0
        if most == 0:
            return '"[" "]"'
        more = "" if most == 1 else f'("," {item}){{{max(0, least - 1)},{"" if most is None else most - 1}}}'
        return f'"[" {item} {more} "]"' if least else f'"[" ({item} {more})? "]"'

    def _object(self, schema: Mapping[str, Any], place: str) -> str:
        """Returns the rule of an object: members in their order, required and optional ones."""
        members, required = schema.get("properties", {}), set(schema.get("required", ()))
        first, rest = '""', '""'  # what may follow if nothing was written yet, and if something was
        for key, inner in reversed(members.items()):
            try:
                member = f'{self._key(key)} ":" {self._value(inner, f"{place}/properties/{key}")}'
            except _NothingError:
                if key in required:
                    raise
                continue
            if key in required:
                first, rest = self._rule(f"{member} {rest}"), self._rule(f'"," {member} {rest}')
            else:
                first, rest = self._rule(f"{member} {rest} | {first}"), self._rule(f'("," {member})? {rest}')
        return self._rule(f'"{{" {first} "}}"')

    def _key(self, key: str) -> str:
        return json.dumps(key) if _BARE_KEY.fullmatch(key) else self._literal(key)

    def _nothing(self, place: str) -> _NothingError:
        return _NothingError(str(self._wrong(place, "allows nothing")))

    def _wrong(self, place: str, what: str) -> SafelightError:
        where = f"the schema's {place}" if place else "the schema"
        return SafelightError(f"{self._tool}: {where} {what}")


def _is_native(schema: Mapping[str, Any], kinds: Sequence[str]) -> bool:
    """True if a grammar of our own can hold a schema's values: only members with names, one schema for all items."""
    if not schema.keys() <= _HELD or isinstance(schema.get("items"), list):
        return False
    if "object" not in kinds:
        return True
    members = schema.get("properties", None if schema.get("additionalProperties") is not False else {})
    return members is not None and members.keys() >= set(schema.get("required", ()))
