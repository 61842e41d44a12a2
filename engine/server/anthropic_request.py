"""The body of ``/v1/messages``, Anthropic's format, and its conversion to a chat."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from engine.server.bodies import checked
from engine.server.errors import ApiError, unread
from engine.server.schemas import MAX_MESSAGES, MAX_STOPS, MAX_TOOLS, AnyLength, ChatRequest, ModelName, Stop
from engine.server.strict import RequestBody, Strict, own_tools

EFFORTS = ("none", "low", "medium", "high")


class MessagesTool(Strict):
    """A function that the model may call."""

    PLACE = "tools."
    UNUSED = frozenset({"type"})
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None


class ToolChoice(Strict):
    """The choice of a tool to call: ``auto``, ``any``, ``none``, or ``tool`` with a name."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingOptions(Strict):
    """The options of thinking before the answer."""

    PLACE = "thinking."
    type: str
    budget_tokens: Annotated[int, Field(ge=1)] | None = None


class OutputConfig(Strict):
    """The format of the answer, and how much it thinks."""

    PLACE = "output_config."
    format: dict[str, Any] | None = None
    effort: str | None = None


class MessagesRequest(RequestBody):
    """Body of ``/v1/messages``."""

    PLACE = ""
    UNUSED = frozenset({"metadata"})
    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_MESSAGES)]
    model: ModelName | None = None
    system: str | list[dict[str, Any]] | None = None
    max_tokens: AnyLength = None
    stop_sequences: Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: float | None = None
    top_k: int | None = None
    tools: Annotated[list[MessagesTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: ThinkingOptions | None = None
    output_config: OutputConfig | None = None
    output_format: dict[str, Any] | None = None

    @field_validator("tools", mode="before")
    @classmethod
    def _drop_tools_of_others(cls, tools: Any, info: ValidationInfo) -> Any:
        """Passes over tools that run on Anthropic's servers."""
        return own_tools(tools, info, lambda tool: tool["type"] == "custom" or "input_schema" in tool)


def chat_of(body: MessagesRequest) -> ChatRequest:
    """Converts a request to a chat.

    Raises:
        ApiError: a block is not one that the model can be shown, or the format of the answer is none.
    """
    choice, thinking, config = body.tool_choice, body.thinking, body.output_config or OutputConfig()
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema, "strict": tool.strict}
        for tool in body.tools or ()
    ]
    asked: dict[str, Any] = {
        "model": body.model,
        "messages": _messages(body),
        "max_completion_tokens": body.max_tokens,
        "stop": body.stop_sequences,
        "stream": body.stream,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": body.top_k,
        "tools": [{"type": "function", "function": tool} for tool in tools] or None,
        "tool_choice": None if choice is None else _tool_choice(choice),
        "parallel_tool_calls": False if choice is not None and choice.disable_parallel_tool_use else None,
        "reasoning_effort": _effort(thinking, config.effort),
        "thinking_token_budget": None if thinking is None else thinking.budget_tokens,
        "response_format": _format(config.format or body.output_format),
    }
    return checked(ChatRequest, asked, body.ignored)


def _effort(thinking: ThinkingOptions | None, effort: str | None) -> str | None:
    if thinking is None:
        return None
    return "none" if thinking.type == "disabled" else effort if effort in EFFORTS else "medium"


def _tool_choice(choice: ToolChoice) -> Any:
    if choice.type == "tool":
        return {"type": "function", "function": {"name": choice.name or ""}}
    return {"any": "required"}.get(choice.type, choice.type)


def _format(sent: dict[str, Any] | None) -> dict[str, Any] | None:
    if sent is None:
        return None
    if sent.get("type") != "json_schema" or not isinstance(sent.get("schema"), dict):
        raise ApiError(400, 'A format is sent as {"type": "json_schema", "schema": {…}}.', param="output_config.format")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": sent["schema"]}}


def _messages(body: MessagesRequest) -> list[dict[str, Any]]:
    """Returns the messages of a chat: the results of tools are messages of their own there."""
    found: list[dict[str, Any]] = []
    if body.system:
        found.append({"role": "system", "content": _text_of(body.system, "system", body)})
    for place, message in enumerate(body.messages):
        where = f"messages.{place}"
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant", "system"):
            raise ApiError(400, "The role must be user or assistant.", param=f"{where}.role")
        for note in message.keys() - {"role", "content"}:
            body.ignored.add(f"messages.{note}")
        if role == "assistant":
            found.append(_written(content, where, body))
        elif isinstance(content, str) or role == "system":
            found.append({"role": role, "content": _text_of(content, where, body)})
        else:
            found += _sent(content, where, body)
    return found


def _blocks(content: Any, where: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ApiError(400, "The content must be a text, or a list of blocks.", param=f"{where}.content")
    return content


def _text_of(content: Any, where: str, body: MessagesRequest) -> str:
    """Returns the text of a content that has no other blocks."""
    texts = []
    for place, block in enumerate(_blocks(content, where)):
        if block.get("type") != "text":
            raise unread(f"Only text is read here, no block of type {_kind(block)}.", f"{where}.content.{place}")
        texts.append(_field(block, "text", f"{where}.content.{place}", body))
    return "\n".join(texts)


def _sent(content: Any, where: str, body: MessagesRequest) -> list[dict[str, Any]]:
    """Returns a user's message, after the results of tools that are in it."""
    results, parts = list[dict[str, Any]](), list[dict[str, Any]]()
    for place, block in enumerate(_blocks(content, where)):
        spot = f"{where}.content.{place}"
        match block.get("type"):
            case "text":
                parts.append({"type": "text", "text": _field(block, "text", spot, body)})
            case "image":
                parts.append({"type": "image_url", "image_url": {"url": _url(block.get("source"), spot)}})
            case "tool_result":
                call, said = block.get("tool_use_id"), _result(block, spot, body)
                results.append({"role": "tool", "tool_call_id": call, "content": said})
            case _:
                raise unread(f"A block of type {_kind(block)} is not read; send text or an image.", spot)
    return [*results, {"role": "user", "content": parts}] if parts else results


def _result(block: dict[str, Any], where: str, body: MessagesRequest) -> list[dict[str, Any]]:
    """Returns what a tool said, as a chat's parts; an error is named as one."""
    found: list[dict[str, Any]] = [{"type": "text", "text": "Error:"}] if block.get("is_error") is True else []
    for place, part in enumerate(_blocks(block.get("content") or [], where)):
        spot = f"{where}.content.{place}"
        match part.get("type"):
            case "text":
                found.append({"type": "text", "text": _field(part, "text", spot, body)})
            case "image":
                found.append({"type": "image_url", "image_url": {"url": _url(part.get("source"), spot)}})
            case _:
                raise unread(f"A block of type {_kind(part)} is not read; send text or an image.", spot)
    return found


def _written(content: Any, where: str, body: MessagesRequest) -> dict[str, Any]:
    """Returns an answer of the model."""
    texts, thoughts, calls = list[str](), list[str](), list[dict[str, Any]]()
    for place, block in enumerate(_blocks(content or "", where)):
        spot = f"{where}.content.{place}"
        match block.get("type"):
            case "text":
                texts.append(_field(block, "text", spot, body))
            case "thinking":
                thoughts.append(_field(block, "thinking", spot, body))
            case "redacted_thinking":
                body.ignored.add("messages.content.redacted_thinking")
            case "tool_use":
                function = {"name": block.get("name"), "arguments": json.dumps(block.get("input") or {})}
                calls.append({"id": block.get("id"), "type": "function", "function": function})
            case _:
                raise unread(f"A block of type {_kind(block)} is not read in an answer.", spot)
    found: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        found["reasoning_content"] = "\n".join(thoughts)
    return found | ({"tool_calls": calls} if calls else {})


def _field(block: dict[str, Any], name: str, where: str, body: MessagesRequest) -> str:
    for note in block.keys() - {"type", name, "signature", "citations"}:
        body.ignored.add(f"messages.content.{note}")
    value = block.get(name)
    if not isinstance(value, str):
        raise ApiError(400, f"{name} must be a text.", param=f"{where}.{name}")
    return value


def _url(source: Any, where: str) -> str:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            return f"data:{kind};base64,{data}"
        case {"type": "url", "url": str(url)}:
            return url
    raise unread("An image is sent in base64, with its media_type.", where)


def _kind(block: dict[str, Any]) -> str:
    return repr(str(block.get("type"))[:60])
