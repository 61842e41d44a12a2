"""``/v1/messages`` and its count of tokens, in Anthropic's format: a chat whose answer is a list of blocks.

Claude Code comes here if ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY are this server's address and key.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server.answer import ServedAnswer
from engine.server.bodies import checked, large_body
from engine.server.chat import plan_chat
from engine.server.context import ServerContext
from engine.server.errors import ApiError, unread
from engine.server.messages import arguments_in
from engine.server.planning import RunPlan, ignore_name
from engine.server.schemas import MAX_MESSAGES, MAX_STOPS, MAX_TOOLS, AnyLength, ChatRequest, ModelName, Stop
from engine.server.serving import AnswerWriter, Choice, RunResponse, event
from engine.server.strict import RequestBody, Strict, own_tools
from engine.text.output_parts import ContentPart, OutputPart, ThoughtPart, ToolCallPart

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
    messages: list[dict[str, Any]] = []
    if body.system:
        messages.append({"role": "system", "content": _text_of(body.system, "system", body)})
    for place, message in enumerate(body.messages):
        where = f"messages.{place}"
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant", "system"):
            raise ApiError(400, "The role must be user or assistant.", param=f"{where}.role")
        for note in message.keys() - {"role", "content"}:
            body.ignored.add(f"messages.{note}")
        if role == "assistant":
            messages.append(_written(content, where, body))
        elif isinstance(content, str) or role == "system":
            messages.append({"role": role, "content": _text_of(content, where, body)})
        else:
            messages += _sent(content, where, body)
    return messages


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
        if block.get("type") == "tool_result":
            call, result = block.get("tool_use_id"), _result(block, spot, body)
            results.append({"role": "tool", "tool_call_id": call, "content": result})
        else:
            parts.append(_part(block, spot, body))
    return [*results, {"role": "user", "content": parts}] if parts else results


def _result(block: dict[str, Any], where: str, body: MessagesRequest) -> list[dict[str, Any]]:
    """Returns what a tool said, as a chat's parts; an error is named as one."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Error:"}] if block.get("is_error") is True else []
    blocks = enumerate(_blocks(block.get("content") or [], where))
    return parts + [_part(inner, f"{where}.content.{place}", body) for place, inner in blocks]


def _part(block: dict[str, Any], where: str, body: MessagesRequest) -> dict[str, Any]:
    """Returns a text or an image as a chat's part."""
    match block.get("type"):
        case "text":
            return {"type": "text", "text": _field(block, "text", where, body)}
        case "image":
            return {"type": "image_url", "image_url": {"url": _url(block.get("source"), where)}}
    raise unread(f"A block of type {_kind(block)} is not read; send text or an image.", where)


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
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    return message | ({"tool_calls": calls} if calls else {})


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


PATH = "/v1/messages"
KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
STOPPED = {"length": "max_tokens", "tool_calls": "tool_use"}


def error_body(error: ApiError) -> dict[str, Any]:
    """Writes a refusal in Anthropic's format."""
    kind = KINDS.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    where = f"{error.param}: " if error.param and error.param not in error.message else ""
    return {"type": "error", "error": {"type": kind, "message": where + error.message}}


def routes(context: ServerContext) -> list[Route]:
    async def answer(request: Request) -> RunResponse:
        async with large_body(request, context, MessagesRequest) as body:
            plan = await asyncio.to_thread(_plan, context, body)
        return RunResponse(context, (plan,), MessagesWriter(plan), PATH, is_streamed=bool(body.stream))

    async def count(request: Request) -> Response:
        async with large_body(request, context, MessagesRequest) as body:
            plan = await asyncio.to_thread(_plan, context, body.model_copy(update={"max_tokens": 0}))
        return JSONResponse({"input_tokens": plan.prompt_tokens})

    return [Route(PATH, answer, methods=["POST"]), Route(f"{PATH}/count_tokens", count, methods=["POST"])]


def _plan(context: ServerContext, body: MessagesRequest) -> RunPlan:
    """Plans the run; a name of Anthropic's models stands for the loaded one, as Claude Code sends several."""
    chat = chat_of(body)
    ignore_name(chat, "claude")
    return plan_chat(context, chat)


class MessagesWriter(AnswerWriter):
    """Writes an answer as blocks: thoughts, text, and calls of tools."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan, self._open, self._count = plan, "", 0
        self._id = f"msg_{plan.request.run_id}"

    def begin(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:  # noqa: ARG002 - as all writers
        usage = {"input_tokens": self._plan.prompt_tokens, "output_tokens": 0}
        yield _event("message_start", message=self._message([], None, None, usage))

    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterator[bytes]:  # noqa: ARG002 - as all writers
        for part in parts:
            match part:
                case ContentPart(text):
                    yield from self._go_on("text", {"type": "text", "text": ""})
                    yield self._delta("text_delta", text=text)
                case ThoughtPart(text):
                    yield from self._go_on("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                    yield self._delta("thinking_delta", thinking=text)
                case ToolCallPart(_, name, arguments):
                    yield from self._close()
                    yield from self._go_on("tool_use", _call(name))
                    yield self._delta("input_json_delta", partial_json=arguments)

    def end(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        [answer] = answers
        if not self._count:
            yield from self._go_on("text", {"type": "text", "text": ""})
        yield from self._close()
        reason, stop = _ending(answer)
        yield _event("message_delta", delta={"stop_reason": reason, "stop_sequence": stop}, usage=_usage(answer))
        yield _event("message_stop")

    def fail(self, error: ApiError) -> Iterator[bytes]:
        yield event(error_body(error), "error")

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        [(parts, answer)] = choices
        blocks: list[dict[str, Any]] = []
        for part in parts:
            match part:
                case ContentPart(text):
                    blocks.append({"type": "text", "text": text})
                case ThoughtPart(text):
                    blocks.append({"type": "thinking", "thinking": text, "signature": ""})
                case ToolCallPart(_, name, arguments):
                    blocks.append(_call(name) | {"input": arguments_in(arguments) or {}})
        return self._message(blocks or [{"type": "text", "text": ""}], *_ending(answer), _usage(answer))

    def _message(
        self, content: list[dict[str, Any]], reason: str | None, stop: str | None, usage: dict[str, int]
    ) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._plan.name,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": stop,
            "usage": usage,
        }

    def _go_on(self, kind: str, block: dict[str, Any]) -> Iterator[bytes]:
        """Begins a block, unless one of its kind is open."""
        if self._open != kind:
            yield from self._close()
            self._open = kind
            self._count += 1
            yield _event("content_block_start", index=self._count - 1, content_block=block)

    def _close(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield _event("content_block_stop", index=self._count - 1)

    def _delta(self, kind: str, **fields: str) -> bytes:
        return _event("content_block_delta", index=self._count - 1, delta={"type": kind, **fields})


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{secrets.token_hex(12)}", "name": name, "input": {}}


def _ending(answer: ServedAnswer) -> tuple[str, str | None]:
    """Returns Anthropic's reason why an answer ended, and the stop sequence that ended it."""
    if answer.stop is not None:
        return "stop_sequence", answer.stop
    return STOPPED.get(answer.finish_reason, "end_turn"), None


def _usage(answer: ServedAnswer) -> dict[str, int]:
    return {
        "input_tokens": answer.prompt_tokens - answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": len(answer.tokens),
    }
