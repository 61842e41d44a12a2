"""``/v1/messages`` and its count of tokens, in Anthropic's format: a chat whose answer is a list of blocks.

Claude Code comes here if ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY are this server's address and key.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server.answer import ServedAnswer
from engine.server.anthropic_request import MessagesRequest, chat_of
from engine.server.bodies import large_body
from engine.server.chat import plan_chat
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.messages import arguments_in
from engine.server.planning import RunPlan, prompt_of, take_any_name
from engine.server.serving import AnswerWriter, Choice, RunResponse
from engine.server.sse import event
from engine.text.output_parts import ContentPart, OutputPart, ThoughtPart, ToolCallPart

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
            found = await asyncio.to_thread(_plan, context, body)
        return RunResponse(context, (found,), MessagesWriter(found), PATH, is_streamed=bool(body.stream))

    async def count(request: Request) -> Response:
        async with large_body(request, context, MessagesRequest) as body:
            return JSONResponse({"input_tokens": await asyncio.to_thread(_count, context, body)})

    return [Route(PATH, answer, methods=["POST"]), Route(f"{PATH}/count_tokens", count, methods=["POST"])]


def _plan(context: ServerContext, body: MessagesRequest) -> RunPlan:
    """Plans the run; a name of Anthropic's models stands for the loaded one, as Claude Code sends several."""
    chat = chat_of(body)
    take_any_name(chat, "claude")
    return plan_chat(context, chat)


def _count(context: ServerContext, body: MessagesRequest) -> int:
    found = _plan(context, body.model_copy(update={"max_tokens": 0}))
    return len(prompt_of(found.model, found.request))


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
