"""``/v1/responses``: a chat in another format, with its answer as items."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server.answer import ServedAnswer
from engine.server.bodies import large_body
from engine.server.chat import plan_chat
from engine.server.chunks import usage_of_items
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.planning import RunPlan
from engine.server.responses_request import ResponsesRequest, ResponseTool, chat_of, renamed
from engine.server.serving import AnswerWriter, Choice, RunResponse, event
from engine.text.output_parts import ContentPart, OutputPart, ThoughtPart, ToolCallPart

PATH = "/v1/responses"


def routes(context: ServerContext) -> list[Route]:
    async def respond(request: Request) -> RunResponse:
        async with large_body(request, context, ResponsesRequest) as body:
            writer = await asyncio.to_thread(_writer, context, body)
        return RunResponse(context, (writer.plan,), writer, PATH, is_streamed=bool(body.stream))

    async def kept(request: Request) -> Response:
        return JSONResponse(context.kept.find(request.path_params["name"]))

    async def forget(request: Request) -> Response:
        name = request.path_params["name"]
        context.kept.forget(name)
        return JSONResponse({"id": name, "object": "response.deleted", "deleted": True})

    return [
        Route(PATH, respond, methods=["POST"]),
        Route(f"{PATH}/{{name}}", kept, methods=["GET"]),
        Route(f"{PATH}/{{name}}", forget, methods=["DELETE"]),
    ]


def _writer(context: ServerContext, sent: ResponsesRequest) -> ResponsesWriter:
    """Plans a response's run, and returns what will write it.

    Raises:
        ApiError: it cannot be run as requested.
    """
    kept = context.kept
    conversation = kept.open(sent.input, sent.previous_response_id)
    body = sent.model_copy(update={"input": conversation.items})
    try:
        chat = chat_of(body)
        try:
            plan = plan_chat(context, chat)
        except ApiError as error:
            raise renamed(error, body, chat) from None
    except ApiError as error:
        if conversation.items != sent.input and (error.param or "").startswith("input."):
            error.param = "input"  # its places are others than those of what was sent
        raise
    if plan.format_field == "response_format":
        plan = dataclasses.replace(plan, format_field="text.format")
    is_kept = sent.store is not False and kept.has_room(conversation)
    return ResponsesWriter(plan, sent, functools.partial(kept.keep, conversation) if is_kept else None)


Keep = Callable[[dict[str, Any]], None]
"""Keeps a response."""


class ResponsesWriter(AnswerWriter):
    def __init__(self, plan: RunPlan, body: ResponsesRequest, keep: Keep | None = None) -> None:
        self.plan, self._body = plan, body.model_copy(update={"input": ""})  # images as text are large
        self._keep = keep
        self._created = int(time.time())
        self._items: list[GrowingItem] = []
        self._sequence = 0

    def begin(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:  # noqa: ARG002 - as all writers
        yield self._event("created", {"response": self._response("in_progress")})
        yield self._event("in_progress", {"response": self._response("in_progress")})

    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterator[bytes]:
        yield from self._all(self._grow(parts, answer))

    def end(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        status = self._status(answers[-1])
        if not self._items:
            yield from self._all(self._open("message"))
        yield from self._all(self._close(status))
        yield self._event(status, {"response": self._kept(status, answers)})

    def fail(self, error: ApiError) -> Iterator[bytes]:
        failed = self._response("failed") | {"error": {"code": "server_error", "message": error.message}}
        yield self._event("failed", {"response": failed})

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        [(parts, answer)] = choices
        for _ in self._grow(parts, answer):
            pass
        if not self._items:
            self._items.append(GrowingItem("message", 0))
        return self._kept(self._status(answer), [answer])

    def _kept(self, status: str, answers: Sequence[ServedAnswer]) -> dict[str, Any]:
        response = self._response(status, answers)
        if self._keep is not None:
            self._keep(response)
        return response

    @staticmethod
    def _status(answer: ServedAnswer) -> str:
        return "incomplete" if answer.finish_reason == "length" else "completed"

    def _grow(self, parts: Iterable[OutputPart], answer: ServedAnswer) -> Iterator[ItemEvent]:
        for part in parts:
            match part:
                case ThoughtPart(text):
                    yield from self._continue("reasoning", text)
                case ContentPart(text):
                    yield from self._continue("message", text, [one.as_chat() for one in answer.take_chances()])
                case ToolCallPart(_, name, arguments):
                    tool = next((tool for tool in self._body.functions if tool.name == name), None)
                    own = (name, None) if tool is None else (tool.own_name, tool.namespace)
                    yield from self._open("function_call", *own)
                    yield from self._items[-1].add(arguments)

    def _continue(self, kind: ItemKind, text: str, chances: Sequence[dict[str, Any]] = ()) -> Iterator[ItemEvent]:
        if not self._items or self._items[-1].kind != kind:
            yield from self._open(kind)
        yield from self._items[-1].add(text, chances)

    def _open(self, kind: ItemKind, name: str = "", namespace: str | None = None) -> Iterator[ItemEvent]:
        yield from self._close()
        self._items.append(GrowingItem(kind, len(self._items), name, namespace))
        yield from self._items[-1].begin()

    def _close(self, status: str = "completed") -> Iterator[ItemEvent]:
        if self._items and self._items[-1].is_open:
            yield from self._items[-1].end(status)

    def _all(self, events: Iterable[ItemEvent]) -> Iterator[bytes]:
        for kind, fields in events:
            yield self._event(kind, fields)

    def _event(self, kind: str, fields: dict[str, Any]) -> bytes:
        name = f"response.{kind}"
        data = {"type": name, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return event(data, name)

    def _response(self, status: str, answers: Sequence[ServedAnswer] = ()) -> dict[str, Any]:
        body, last = self._body, len(self._items) - 1
        whys = [one.why for one in answers if one.why]  # our message, if the length is not the cause
        incomplete = {"reason": "max_output_tokens"} | ({"message": whys[0]} if whys else {})
        output = [item.json("completed" if item.index < last else status) for item in self._items] if answers else []
        return {
            "id": f"resp_{self.plan.request.run_id}",
            "object": "response",
            "created_at": self._created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": incomplete if answers and status == "incomplete" else None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "model": self.plan.name,
            "output": output,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": body.previous_response_id,
            "reasoning": {"effort": body.reasoning.effort if body.reasoning is not None else None, "summary": None},
            "store": self._keep is not None,
            "temperature": body.temperature,
            "text": {"format": _format(body)},
            "tool_choice": body.tool_choice or "auto",
            "tools": list(map(_shown, body.functions)),
            "top_p": 1.0 if body.top_p is None else body.top_p,
            "top_logprobs": body.top_logprobs,
            "truncation": "disabled",
            "metadata": body.metadata or {},
            "seed": self.plan.request.seed,  # our own field: repeats the answer
            "usage": _usage(answers[-1]) if answers else None,
        }


def _shown(tool: ResponseTool) -> dict[str, Any]:
    space = set() if tool.namespace is not None else {"namespace"}
    return {**tool.model_dump(exclude=space), "name": tool.own_name}


def _usage(answer: ServedAnswer) -> dict[str, Any]:
    return usage_of_items(answer.prompt_tokens, answer.cached_tokens, len(answer.tokens), answer.reasoning_tokens)


def _format(body: ResponsesRequest) -> dict[str, Any]:
    if body.text is None or body.text.format is None:
        return {"type": "text"}
    return body.text.format.model_dump(by_alias=True, exclude_none=True)


ItemKind = Literal["reasoning", "message", "function_call"]
ItemEvent = tuple[str, dict[str, Any]]
"""An event's type without ``response.``, and its fields except the sequence number."""

_PREFIXES: dict[ItemKind, str] = {"reasoning": "rs", "message": "msg", "function_call": "fc"}
_PARTS: dict[ItemKind, str] = {"reasoning": "reasoning_text", "message": "output_text"}


class GrowingItem:
    """One item of the output, from its first piece to its end; ``text`` also holds a call's arguments."""

    def __init__(self, kind: ItemKind, index: int, name: str = "", namespace: str | None = None) -> None:
        self.kind, self.index, self._name, self._namespace = kind, index, name, namespace
        self._id = f"{_PREFIXES[kind]}_{secrets.token_hex(16)}"
        self.is_open = True
        self._call_id = f"call_{secrets.token_hex(12)}"
        self._texts: list[str] = []
        self._chances: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def json(self, status: str) -> dict[str, Any]:
        """Returns the current item; while it is in progress, without its content."""
        base = {"id": self._id, "type": self.kind, "status": status}
        is_begun = status != "in_progress"
        if self.kind == "function_call":
            arguments = (self.text or "{}") if is_begun else ""
            space = {} if self._namespace is None else {"namespace": self._namespace}
            return {**base, "call_id": self._call_id, "name": self._name, **space, "arguments": arguments}
        fields: dict[str, Any] = {"role": "assistant"} if self.kind == "message" else {"summary": []}
        return {**base, **fields, "content": [self._part(self.text)] if is_begun else []}

    def begin(self) -> Iterator[ItemEvent]:
        yield "output_item.added", {"output_index": self.index, "item": self.json("in_progress")}
        if self.kind != "function_call":
            yield "content_part.added", {**self._place(), "part": self._part("")}

    def add(self, text: str, chances: Sequence[dict[str, Any]] = ()) -> Iterator[ItemEvent]:
        """Adds text, and the probabilities of its tokens."""
        self._texts.append(text)
        self._chances += chances
        if self.kind == "function_call":
            yield "function_call_arguments.delta", {**self._spot(), "delta": text}
        else:
            yield f"{_PARTS[self.kind]}.delta", {**self._place(), "delta": text, **self._logprobs(chances)}

    def end(self, status: str = "completed") -> Iterator[ItemEvent]:
        self.is_open = False
        if self.kind == "function_call":
            arguments = self.text or "{}"
            yield "function_call_arguments.done", {**self._spot(), "name": self._name, "arguments": arguments}
        else:
            yield f"{_PARTS[self.kind]}.done", {**self._place(), "text": self.text, **self._logprobs(self._chances)}
            yield "content_part.done", {**self._place(), "part": self._part(self.text)}
        yield "output_item.done", {"output_index": self.index, "item": self.json(status)}

    def _spot(self) -> dict[str, Any]:
        return {"item_id": self._id, "output_index": self.index}

    def _place(self) -> dict[str, Any]:
        return {**self._spot(), "content_index": 0}

    def _logprobs(self, chances: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {"logprobs": list(chances)} if self.kind == "message" else {}

    def _part(self, text: str) -> dict[str, Any]:
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": self._chances if text else []}
