"""Renders messages to the prompt text, with the checkpoint's own Jinja template in a sandbox.

Some templates take the schema of a tool's parameters apart, and lose what they do not expect: a list of types,
alternatives, references. They get it in a plain form: a value has one type, may be nullable, and is described where it
stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.errors import SafelightError
from engine.files import read_json, read_text
from engine.text.message import Message, in_parts
from engine.text.schema_parts import KINDS, changed, looked_up
from engine.text.template_sandbox import MAX_SOURCE, Rendering, compile_template, names_in, render

MAX_DEPTH = 32  # of objects and lists in messages and tools
MAX_CHAT_VALUES, MAX_CHAT_CHARACTERS = 500_000, 2**28
"""Bounds of all messages; far more than any context has."""
MAX_TOOL_VALUES, MAX_TOOL_CHARACTERS = 20_000, 2**20
"""Bounds of all tools; a hundred usual tools have a tenth of it."""

_PROBE: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "d7e1",
        "description": "-",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": ["string", "null"], "description": "-"},
                "b": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "-"},
                "c": {"enum": ["9a7e"], "description": "-"},
                "d": {"$ref": "#/$defs/e"},
            },
            "$defs": {"e": {"type": "string", "description": "c3d5"}},
        },
    },
}
"""A tool whose schema has what some templates lose."""

LARGEST, LARGEST_PER_CHARACTER = 2**20, 8
"""Items and characters of the largest value that a rendering may make, which a prompt is, too."""


class ChatTemplate:
    """A compiled chat template with the special tokens it may name.

    Args:
        source: the Jinja text; None for a base model, which refuses all messages.
    """

    def __init__(self, source: str | None, tokens: Mapping[str, str]) -> None:
        self._template = None if source is None else compile_template(source)
        self.names = frozenset[str]() if source is None else names_in(source)
        self._tokens = dict(tokens)

    @staticmethod
    def from_folder(folder: Path) -> ChatTemplate:
        """Reads ``chat_template.jinja``, or the template inside ``tokenizer_config.json``; a base model has neither.

        Raises:
            SafelightError: it is not valid Jinja, or there are several and none is the default.
        """
        settings_path = folder / "tokenizer_config.json"
        settings = read_json(settings_path) if settings_path.exists() else {}
        path = folder / "chat_template.jinja"
        source = read_text(path, 4 * MAX_SOURCE) if path.exists() else settings.get("chat_template")
        return ChatTemplate.from_settings(settings, source, settings_path)

    @staticmethod
    def from_settings(settings: Mapping[str, Any], source: Any, settings_path: Path) -> ChatTemplate:
        """Compiles ``source`` with the special tokens of a parsed ``tokenizer_config.json``, as ``from_folder``."""
        if isinstance(source, list):  # several, by their names
            named = (one for one in source if isinstance(one, dict) and one.get("name") == "default")
            source = next((one.get("template") for one in named), None)
            if source is None:
                raise SafelightError(f"{settings_path} has no default among its templates; add chat_template.jinja")
        if source is not None and not isinstance(source, str):
            raise SafelightError(f"{settings_path} has a chat template that is not text; download the model again")
        tokens = {}
        for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
            token = settings.get(name)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                tokens[name] = token
        return ChatTemplate(source, tokens)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        inert: Callable[[str], str] | None = None,
        **options: Any,
    ) -> str:
        """Returns the prompt text up to the beginning of the model's turn.

        Args:
            messages: oldest first; the template places their images.
            tools: functions that the model may call, as OpenAI describes them.
            inert: function that breaks the control tokens in every text and name of the messages and the tools.
            options: passed to the template, ``enable_thinking`` for instance.

        Raises:
            SafelightError: the template refuses these messages, or takes too much; or they, or the tools, are out of
                bounds; or there is no template.
        """
        if self._template is None:
            raise SafelightError(
                "this is a base model: it has no chat template and only continues texts (/v1/completions); for chat, "
                "load the chat model made from it"
            )

        if tools and self._loses_schemas:
            tools = plain_declarations(tools)
        return self._rendered(messages, tools, inert, options)

    @cached_property
    def _loses_schemas(self) -> bool:
        """True if the template takes schemas apart, and loses or garbles some."""
        try:
            text = self._rendered([{"role": "user", "content": "-"}], [_PROBE], None, {}).lower()
        except SafelightError:
            return True
        is_garbled = "'null'" in text and "'anyof'" not in text  # the list of types as Python writes it, alone
        return is_garbled or any(part not in text for part in ("integer", "9a7e", "c3d5"))

    def _rendered(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        inert: Callable[[str], str] | None,
        options: Mapping[str, Any],
    ) -> str:
        assert self._template is not None

        def changed(text: str) -> str:
            is_known = text.isidentifier() and text in self.names  # the template looks for it: a role, a type, a key
            return text if inert is None or is_known else inert(text)

        message_values = TemplateValues("the messages", MAX_CHAT_VALUES, MAX_CHAT_CHARACTERS, changed)
        tool_values = TemplateValues("the tools", MAX_TOOL_VALUES, MAX_TOOL_CHARACTERS, changed)
        values = {"messages": message_values.copied(list(map(in_parts, messages))), "add_generation_prompt": True}
        if tools:
            values["tools"] = tool_values.copied(tools)
        characters = message_values.characters + tool_values.characters
        rendering = Rendering(LARGEST + LARGEST_PER_CHARACTER * characters, inert or str)
        return render(self._template, rendering, {**values, **self._tokens, **options})


class TemplateValues:
    """Copies values, and counts them.

    Args:
        what: name of the values in messages: "the tools".
        most_values: objects, lists, members and items.
        most_characters: of all texts together.
        changed: applied to each text and key.
    """

    def __init__(self, what: str, most_values: int, most_characters: int, changed: Callable[[str], str]) -> None:
        self.values = self.characters = 0
        self._what, self._most_values, self._most_characters = what, most_values, most_characters
        self._changed = changed

    def copied(self, value: object, depth: int = MAX_DEPTH) -> Any:
        """Copies a value of dicts, lists, texts and numbers.

        Raises:
            SafelightError: it is too deep or too large, or something else is in it.
        """
        self.values += 1
        if self.values > self._most_values:
            raise SafelightError(f"{self._what} hold more than {self._most_values:,} values; send fewer of them")
        if isinstance(value, str):
            self.characters += len(value)
            if self.characters > self._most_characters:
                raise SafelightError(
                    f"{self._what} have more than {self._most_characters:,} characters; send fewer or shorter ones"
                )
            return self._changed(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth == 0:
            raise SafelightError(f"{self._what} are nested deeper than {MAX_DEPTH} levels; simplify them")
        if isinstance(value, Mapping):
            return {self._key(key): self.copied(inner, depth - 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.copied(inner, depth - 1) for inner in value]
        raise SafelightError(f"{self._what} hold a {type(value).__name__}, which is neither text nor JSON; remove it")

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise SafelightError(f"{self._what} have a key that is not text; make it text")
        self.characters += len(key)
        return self._changed(key)


MAX_SCHEMAS = 2_000  # that references put in place, of all tools; further references are left out
MAX_REFERRED = 10  # of members and items in which references are put in place
_DEEPEST = 32  # what is deeper is refused later
_LEFT_OUT = ("$ref", "$defs", "definitions", "anyOf", "oneOf", "allOf", "const")


def plain_declarations(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns tools as OpenAI describes them, with the schemas of their parameters in plain form."""
    declarations, left = list[Mapping[str, Any]](), MAX_SCHEMAS
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("parameters"), Mapping):
            plain = _PlainSchema(function["parameters"], left)
            tool, left = {**tool, "function": {**function, "parameters": plain.whole}}, plain.left
        declarations.append(tool)
    return declarations


class _PlainSchema:
    """A schema in plain form. Of several types or alternatives besides null, the first is taken."""

    def __init__(self, root: Mapping[str, Any], left: int) -> None:
        self._root, self.left = root, left
        self.whole = self._plain(root, (), 0)

    def _plain(self, schema: Any, within: tuple[str, ...], depth: int) -> Any:
        """Returns a schema in plain form; ``within`` are the references that lead to it."""
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return schema
        self.left -= bool(within)
        merged, is_nullable = dict[str, Any](), schema.get("nullable") is True
        reference = schema.get("$ref")
        is_open = self.left > 0 and depth <= MAX_REFERRED and len(within) < _DEEPEST and reference not in within
        if isinstance(reference, str) and is_open:
            merged = _merged(merged, self._plain(looked_up(self._root, reference), (*within, reference), depth))
        for one in _listed(schema, "allOf"):
            merged = _merged(merged, self._plain(one, within, depth + 1))
        for name in ("anyOf", "oneOf"):
            plain = [self._plain(one, within, depth + 1) for one in _listed(schema, name)]
            choices = [one for one in plain if isinstance(one, dict)]
            others = [one for one in choices if one.get("type") != "null"]
            is_nullable = is_nullable or len(others) < len(choices)
            if others and all("enum" in one for one in others):
                others[0] = {**others[0], "enum": [value for one in others for value in one["enum"]]}
            merged = _merged(merged, others[0] if others else {})
        own = {name: value for name, value in schema.items() if name not in _LEFT_OUT}
        own = changed(own, lambda inner: self._plain(inner, within, depth + 1))
        if "const" in schema:
            own.setdefault("enum", [schema["const"]])
        merged = _typed(_merged(merged, own))
        return {**merged, "nullable": True} if is_nullable else merged


def _listed(schema: Mapping[str, Any], name: str) -> list[Any]:
    value = schema.get(name)
    return value if isinstance(value, list) else []


def _merged(first: dict[str, Any], second: Any) -> dict[str, Any]:
    """Returns what two schemas say about one value; the second has the last word."""
    if not isinstance(second, Mapping):
        return first
    both = {**first, **second}
    if isinstance(first.get("properties"), dict) and isinstance(second.get("properties"), dict):
        both["properties"] = {**first["properties"], **second["properties"]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        both["required"] = [*first["required"], *second["required"]]
    return both


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema with one type, that of its values if it names none; null among them makes it nullable."""
    typed, kind, values = dict(schema), schema.get("type"), _listed(schema, "enum")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        typed |= {"type": kinds[0] if kinds else "null"} | (
            {"nullable": True} if len(kinds) < len(kind) and kinds else {}
        )
    elif kind is None and (named := [value for value in values if type(value) in KINDS]):
        typed["type"] = "number" if {*map(type, named)} == {int, float} else KINDS[type(named[0])]
    elif kind is None and ("properties" in schema or "items" in schema):
        typed["type"] = "object" if "properties" in schema else "array"
    if None in values and any(value is not None for value in values):
        typed |= {"enum": [value for value in values if value is not None], "nullable": True}
    return typed
