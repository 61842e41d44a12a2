"""``/v1/chat/completions``."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from engine.server.answer import AnswerSettings, ServedAnswer
from engine.server.bodies import large_body
from engine.server.chunks import ChunkWriter
from engine.server.context import ServerContext
from engine.server.errors import ApiError, unsupported
from engine.server.formats import AskedFormat, contradicting, may_call, read_calls, read_format
from engine.server.images import SentImages
from engine.server.messages import read_messages, read_tools
from engine.server.planning import RunPlan, plan, prompt_of
from engine.server.schemas import ChatRequest
from engine.server.serving import Choice, RunResponse
from engine.service import ChatRun, LoadedModel, RunRequest
from engine.text.output_parts import (
    ContentPart,
    OutputPart,
    ThoughtPart,
    ToolCallPart,
    joined_text,
)

PATH = "/v1/chat/completions"


def routes(context: ServerContext) -> list[Route]:
    async def answer(request: Request) -> RunResponse:
        async with large_body(request, context, ChatRequest) as body:
            found = (await asyncio.to_thread(plan_chat, context, body)).choices(body.n)
        return RunResponse(context, found, ChatWriter(found, body), PATH, is_streamed=bool(body.stream))

    return [Route(PATH, answer, methods=["POST"])]


def plan_chat(context: ServerContext, body: ChatRequest) -> RunPlan:
    """Plans the run of a chat. Slow.

    Raises:
        ApiError: it cannot be run as requested.
    """
    thinks = thinks_in(body)
    tools, choice = _tools_of(body)
    asked_format = _format_of(body, tools, choice)
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    top = (body.top_logprobs or 0) if body.logprobs else None
    is_strict = asked_format is None and any(tool.function.strict for tool in body.tools or ())

    def make_request(model: LoadedModel, fields: dict[str, Any]) -> RunRequest:
        images = SentImages(model, context.pictures)
        messages = read_messages(body.messages, images, body.ignored)
        fields |= {"config": images.budget(fields["config"]), "pictures": images.pictures}
        if is_strict and tools:
            fields["output_format"] = may_call(tools)
        request = ChatRun(messages=messages, think=thinks, tools=tools, **fields)
        if tools and not model.reads_tools:
            raise unsupported("This model's chat template does not support tools.", "tools")
        plain = dataclasses.replace(request, think=False)
        if thinks and prompt_of(model, request) == prompt_of(model, plain):
            body.ignored.add("reasoning_effort")
            return plain
        return request

    settings = AnswerSettings(
        max_tokens=0,
        stops=body.stops,
        schemas=schemas,
        one_call=body.parallel_tool_calls is False,
        top_logprobs=top,
    )
    longest = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    found = plan(context, body, longest, top, make_request, settings, asked_format)
    return found


def thinks_in(body: ChatRequest) -> bool:
    """Returns True if the model is to think first.

    Raises:
        ApiError: the fields contradict each other.
    """
    options, effort = body.chat_template_kwargs, body.reasoning_effort
    enabled = options.enable_thinking if options is not None else None
    wanted = None if effort is None else effort not in ("none", "minimal")
    if enabled is not None and wanted is not None and enabled != wanted:
        raise ApiError(
            400, "reasoning_effort and enable_thinking contradict each other; give one.", param="reasoning_effort"
        )
    return bool(enabled or wanted)


def _tools_of(body: ChatRequest) -> tuple[tuple[Mapping[str, Any], ...], Any]:
    """Returns the tools that may be called, and the choice among these.

    Raises:
        ApiError: two have one name.
    """
    tools, choice = read_tools(body.tools or ()), body.tool_choice
    match choice:
        case "none":
            return (), choice
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(allowed)}}:
            names = [tool.get("function") for tool in allowed if isinstance(tool, dict)]
            return tuple(tool for tool in tools if {"name": tool["function"]["name"]} in names), mode
    return tools, choice


def _format_of(body: ChatRequest, tools: Sequence[Mapping[str, Any]], choice: Any) -> AskedFormat | None:
    """Returns the format that the answer must fit, or a forced call.

    Raises:
        ApiError: it is none, or a call and another format are asked for.
    """
    asked = read_format(body)
    if choice in (None, "auto", "none"):
        if asked is not None and tools:  # no call would ever be made
            raise contradicting("tools", asked.field)
        return asked
    match choice:
        case "required":
            forced = tools
        case {"type": "function", "function": {"name": str(name)}}:
            forced = [tool for tool in tools if tool["function"]["name"] == name]
        case _:
            raise ApiError(
                400, "tool_choice must be none, auto, required, or the name of a function.", param="tool_choice"
            )
    if not forced:
        raise ApiError(400, "There is no such tool; list it in tools.", param="tool_choice")
    if asked is not None:
        raise contradicting("tool_choice", asked.field)
    return read_calls(forced)


class ChatWriter(ChunkWriter):
    """Writes an answer as chat completions."""

    def __init__(self, plans: Sequence[RunPlan], body: ChatRequest) -> None:
        head = {"id": f"chatcmpl-{plans[0].request.run_id}"}
        super().__init__(plans, body, head, {"object": "chat.completion.chunk"}, {"delta": {}})
        self._has_logprobs = bool(body.logprobs)

    def begin(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        for answer in answers:
            yield self._chunk(answer, {"delta": {"role": "assistant", "content": ""}})

    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterator[bytes]:
        for part in parts:
            match part:
                case ContentPart(text):
                    yield self._chunk(answer, {"delta": {"content": text}}, logprobs=self._logprobs(answer))
                case ThoughtPart(text):
                    yield self._chunk(answer, {"delta": {"reasoning": text, "reasoning_content": text}})
                case ToolCallPart(index, name, arguments):
                    for call in (_call(name), {"function": {"arguments": arguments}}):
                        yield self._chunk(answer, {"delta": {"tool_calls": [{"index": index, **call}]}})

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        found = super().whole(choices) | {"object": "chat.completion"}
        for choice in found["choices"]:
            if self._has_logprobs and choice["logprobs"] is None:
                choice["logprobs"] = {"content": [], "refusal": None}
        return found

    def _entry(self, parts: Sequence[OutputPart]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": joined_text(parts, ContentPart), "refusal": None}
        thought = joined_text(parts, ThoughtPart)
        calls = [_call(part.name, part.arguments) for part in parts if isinstance(part, ToolCallPart)]
        if thought:
            message |= {"reasoning": thought, "reasoning_content": thought}
        if calls:
            message |= {"tool_calls": calls, "content": message["content"] or None}
        return {"message": message}

    def _logprobs(self, answer: ServedAnswer) -> dict[str, Any] | None:
        known = answer.take_chances()
        return {"content": [chance.as_chat() for chance in known], "refusal": None} if known else None


def _call(name: str, arguments: str = "") -> dict[str, Any]:
    return {
        "id": f"call_{secrets.token_hex(12)}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
