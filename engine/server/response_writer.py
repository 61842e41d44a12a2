"""An answer as a response: its items, their events, and the response as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from engine.server.answer import ServedAnswer
from engine.server.chunks import usage_of_items
from engine.server.errors import ApiError
from engine.server.planning import RunPlan
from engine.server.response_items import GrowingItem, ItemEvent, ItemKind
from engine.server.responses_request import ResponsesRequest, ResponseTool
from engine.server.serving import Choice
from engine.server.sse import ALIVE, EVENTS, event
from engine.text.output_parts import ContentPart, OutputPart, ThoughtPart, ToolCallPart

Keep = Callable[[dict[str, Any]], None]
"""Keeps a response."""


class ResponsesWriter:
    """Writes one answer."""

    content_type, alive = EVENTS, ALIVE

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

    def add_frame(self, frame: dict[str, Any], answer: ServedAnswer) -> Iterator[bytes]:  # noqa: ARG002 - as all writers
        """Yields nothing: a response has no place for frames."""
        yield from ()

    def end(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        status = self._status(answers[-1])
        if not self._items:
            yield from self._all(self._open_kind("message"))
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
                    yield from self._open_call(name)
                    yield from self._items[-1].add(arguments)

    def _continue(self, kind: ItemKind, text: str, chances: Sequence[dict[str, Any]] = ()) -> Iterator[ItemEvent]:
        if not self._items or self._items[-1].kind != kind:
            yield from self._open_kind(kind)
        yield from self._items[-1].add(text, chances)

    def _open_kind(self, kind: ItemKind) -> Iterator[ItemEvent]:
        yield from self._open(GrowingItem(kind, len(self._items)))

    def _open_call(self, name: str) -> Iterator[ItemEvent]:
        tool = next((tool for tool in self._body.functions if tool.name == name), None)
        own = (name, None) if tool is None else (tool.own_name, tool.namespace)
        yield from self._open(GrowingItem("function_call", len(self._items), *own))

    def _open(self, item: GrowingItem) -> Iterator[ItemEvent]:
        yield from self._close()
        self._items.append(item)
        yield from item.begin()

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
        output = [item.json("completed" if item.index < last else status) for item in self._items] if answers else []
        return {
            "id": f"resp_{self.plan.request.run_id}",
            "object": "response",
            "created_at": self._created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": _why_incomplete(answers[-1]) if answers and status == "incomplete" else None,
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


def _why_incomplete(answer: ServedAnswer) -> dict[str, str]:
    """Returns OpenAI's reason, and our message if the length is not the cause."""
    return {"reason": "max_output_tokens"} | ({"message": answer.why} if answer.why else {})


def _format(body: ResponsesRequest) -> dict[str, Any]:
    """Returns the requested format of the text."""
    if body.text is None or body.text.format is None:
        return {"type": "text"}
    return body.text.format.model_dump(by_alias=True, exclude_none=True)
