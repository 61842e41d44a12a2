"""``/v1/chat/completions``."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from engine.server.answer import AnswerSettings, ServedAnswer
from engine.server.bodies import large_body
from engine.server.chunks import ChunkWriter
from engine.server.context import ServerContext
from engine.server.errors import unsupported
from engine.server.formats import held_by
from engine.server.messages import SentImages, read_messages
from engine.server.planning import RunPlan, plan
from engine.server.schemas import ChatRequest
from engine.server.serving import Choice, RunResponse
from engine.service import ChatRun
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
            plans = (await asyncio.to_thread(plan_chat, context, body)).choices(body.n)
        return RunResponse(context, plans, ChatWriter(plans, body), PATH, is_streamed=bool(body.stream))

    return [Route(PATH, answer, methods=["POST"])]


def plan_chat(context: ServerContext, body: ChatRequest) -> RunPlan:
    """Plans the run of a chat. Slow.

    Raises:
        ApiError: it cannot be run as requested.
    """
    tools, asked_format, output_format = held_by(body)
    model, fields = context.model_and_fields(body)
    if tools and not model.reads_tools:
        raise unsupported("This model's chat template does not support tools.", "tools")
    images = SentImages(model, context.pictures)
    messages = read_messages(body.messages, images, body.ignored)
    fields |= {"config": images.budget(model.defaults), "pictures": images.pictures, "output_format": output_format}
    request = ChatRun(messages=messages, think=body.thinks, tools=tools, **fields)
    settings = AnswerSettings(
        stops=body.stops,
        is_raw=asked_format is not None and asked_format.format.kind != "tool_calls" and not request.think,
        schemas={tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools},
        one_call=body.parallel_tool_calls is False,
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )
    longest = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    return plan(context, body, model, request, longest, settings, "messages", asked_format)


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
        body = super().whole(choices) | {"object": "chat.completion"}
        for choice in body["choices"]:
            if self._has_logprobs and choice["logprobs"] is None:
                choice["logprobs"] = {"content": [], "refusal": None}
        return body

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
