"""The format that an answer must fit, as OpenAI's and vLLM's clients request it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.files import parse_json
from engine.server.errors import ApiError, refusing
from engine.server.schemas import ChatRequest, ResponseFormat, SampledRequest, StructuredOutputs
from engine.text.output_format import FormatKind, OutputFormat


@dataclass(frozen=True)
class AskedFormat:
    """The format of an answer, and the field of the request that asks for it."""

    format: OutputFormat
    field: str


def read_format(body: SampledRequest) -> AskedFormat | None:
    """Returns the requested format.

    Raises:
        ApiError: it is none, or there are several.
    """
    form = body.response_format or ResponseFormat(type="text")
    more = body.structured_outputs or StructuredOutputs()
    asked: tuple[tuple[str, FormatKind, Any], ...] = (
        ("response_format", "json_schema", form.json_schema and form.json_schema.schema_),
        ("response_format", "json_schema", form.schema_of_object),
        ("response_format", "json_object", (form.type == "json_object" and form.schema_of_object is None) or None),
        ("structured_outputs.json", "json_schema", more.json_),
        ("structured_outputs.regex", "regex", more.regex),
        ("structured_outputs.choice", "choices", more.choice),
        ("structured_outputs.json_object", "json_object", more.json_object or None),
        ("json_schema", "json_schema", body.json_schema),
        ("guided_json", "json_schema", body.guided_json),
        ("guided_regex", "regex", body.guided_regex),
        ("guided_choice", "choices", body.guided_choice),
    )
    named = [one for one in asked if one[2] is not None]
    if not named:
        return None
    if len(named) > 1:
        raise contradicting(named[0][0], named[1][0])
    [(field, kind, value)] = named
    with refusing(field):
        return AskedFormat(_made(kind, value), field)


def held_by(body: ChatRequest) -> tuple[tuple[Mapping[str, Any], ...], AskedFormat | None, OutputFormat | None]:
    """Returns the tools that may be called, the format that a chat asks for, and that which its answer is held to.

    The last is that of calls alone where one is forced, and of text or calls where tools are strict.

    Raises:
        ApiError: the format is none, or a call and another format are asked for; two tools have one name.
    """
    asked, (tools, choice) = read_format(body), _tools_of(body)
    if choice in (None, "auto", "none"):
        if asked is not None and tools:  # no call would ever be made
            raise contradicting("tools", asked.field)
        is_strict = asked is None and any(tool.function.strict for tool in body.tools or ())
        free = OutputFormat.text_or_calls(_functions(tools)) if is_strict and tools else None
        return tools, asked, free if asked is None else asked.format
    match choice:
        case "required":
            forced = tools
        case {"type": "function", "function": {"name": str(name)}}:
            forced = tuple(tool for tool in tools if tool["function"]["name"] == name)
        case _:
            raise ApiError(
                400, "tool_choice must be none, auto, required, or the name of a function.", param="tool_choice"
            )
    if not forced:
        raise ApiError(400, "There is no such tool; list it in tools.", param="tool_choice")
    if asked is not None:
        raise contradicting("tool_choice", asked.field)
    with refusing("tools"):
        calls = AskedFormat(OutputFormat("tool_calls", tools=_functions(forced)), "tool_choice")
    return tools, calls, calls.format


def _tools_of(body: ChatRequest) -> tuple[tuple[Mapping[str, Any], ...], Any]:
    """Returns the tools that may be called, as chat templates take them, and the choice among these.

    Raises:
        ApiError: two have one name.
    """
    sent, choice = body.tools or (), body.tool_choice
    if len({tool.function.name for tool in sent}) < len(sent):
        raise ApiError(400, "Two tools have the same name; rename one.", param="tools")
    tools = tuple(tool.model_dump(exclude_none=True, exclude={"function": {"strict"}}) for tool in sent)
    match choice:
        case "none":
            return (), choice
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(allowed)}}:
            names = [tool.get("function") for tool in allowed if isinstance(tool, dict)]
            return tuple(tool for tool in tools if {"name": tool["function"]["name"]} in names), mode
    return tools, choice


def _functions(tools: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    functions = [tool["function"] for tool in tools]
    return tuple({"name": one["name"], "parameters": one.get("parameters") or {}} for one in functions)


def contradicting(one: str, other: str) -> ApiError:
    """Returns the error of two fields that cannot both be honoured."""
    return ApiError(400, f"{one} and {other} contradict each other; give one.", param=other)


def _made(kind: FormatKind, value: Any) -> OutputFormat:
    match kind:
        case "json_schema":
            return OutputFormat(kind, parse_json(value, "the schema") if isinstance(value, str) else value)
        case "regex":
            return OutputFormat(kind, pattern=value)
        case "choices":
            return OutputFormat(kind, choices=tuple(value))
    return OutputFormat(kind)
