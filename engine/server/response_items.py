"""The items of a response's output, as they grow, with the events that say so."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from engine.tools.tool import Tool, ToolResult

ItemKind = Literal["reasoning", "message", "function_call", "mcp_list_tools", "mcp_call", "mcp_approval_request"]
ItemEvent = tuple[str, dict[str, Any]]
"""An event's type without ``response.``, and its fields except the sequence number."""

_PREFIXES: dict[ItemKind, str] = {
    "reasoning": "rs",
    "message": "msg",
    "function_call": "fc",
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
}
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
        own: dict[str, Any] = {"role": "assistant"} if self.kind == "message" else {"summary": []}
        return {**base, **own, "content": [self._part(self.text)] if is_begun else []}

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


class ListedTools(GrowingItem):
    """The tools of one of the user's servers."""

    def __init__(self, index: int, server: str, tools: Sequence[Tool]) -> None:
        super().__init__("mcp_list_tools", index)
        self._server, self._tools = server, tools

    def json(self, status: str) -> dict[str, Any]:
        tools = self._tools if status != "in_progress" else ()
        base = {"id": self._id, "type": self.kind, "server_label": self._server, "error": None}
        return {**base, "tools": [_listed(tool) for tool in tools]}

    def begin(self) -> Iterator[ItemEvent]:
        yield "output_item.added", {"output_index": self.index, "item": self.json("in_progress")}
        yield "mcp_list_tools.in_progress", self._spot()

    def end(self, status: str = "completed") -> Iterator[ItemEvent]:
        self.is_open = False
        yield "mcp_list_tools.completed", self._spot()
        yield "output_item.done", {"output_index": self.index, "item": self.json(status)}


def _listed(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters or {"type": "object", "properties": {}},
        "annotations": {"read_only": tool.is_read_only},
    }


class ServerCall(GrowingItem):
    """A call of a tool of the user's servers. ``end`` ends its arguments, and ``finish`` the call.

    Args:
        approval: id of the request by which the client has approved it.
    """

    def __init__(self, index: int, tool: Tool, approval: str | None = None) -> None:
        super().__init__("mcp_call", index)
        self.tool, self._approval = tool, approval
        self._result: ToolResult | None = None
        self._status = ""  # once it is finished

    @property
    def is_finished(self) -> bool:
        return bool(self._status)

    def json(self, status: str) -> dict[str, Any]:
        """Returns the current item; the given status counts until the call is finished."""
        result = self._result
        is_error = result is not None and result.is_error
        content = [] if result is None else [{"type": "text", "text": result.text}]
        return {
            "id": self._id,
            "type": self.kind,
            "server_label": self.tool.server,
            "name": self.tool.name,
            "arguments": "" if status == "in_progress" else self.text or "{}",
            "approval_request_id": self._approval,
            "output": None if result is None or is_error else result.text,
            "error": {"type": "mcp_tool_execution_error", "content": content} if is_error else None,
            "status": self._status or status,
        }

    def begin(self) -> Iterator[ItemEvent]:
        yield "output_item.added", {"output_index": self.index, "item": self.json("in_progress")}
        yield "mcp_call.in_progress", self._spot()

    def add(self, text: str, chances: Sequence[dict[str, Any]] = ()) -> Iterator[ItemEvent]:  # noqa: ARG002 - as its base
        self._texts.append(text)
        yield "mcp_call_arguments.delta", {**self._spot(), "delta": text}

    def end(self, status: str = "completed") -> Iterator[ItemEvent]:  # noqa: ARG002 - as its base
        self.is_open = False
        yield "mcp_call_arguments.done", {**self._spot(), "arguments": self.text or "{}"}

    def finish(self, result: ToolResult | None) -> Iterator[ItemEvent]:
        """Ends the call with its result; None: the answer was cut, and the call is not made."""
        self._result = result
        self._status = "incomplete" if result is None else "failed" if result.is_error else "completed"
        if result is not None:
            yield f"mcp_call.{self._status}", self._spot()
        yield "output_item.done", {"output_index": self.index, "item": self.json(self._status)}


class AskedApproval(GrowingItem):
    """A call of a tool of the user's servers that waits until the client approves it. It is sent once it is whole."""

    def __init__(self, index: int, tool: Tool) -> None:
        super().__init__("mcp_approval_request", index)
        self._tool = tool

    def json(self, status: str) -> dict[str, Any]:  # noqa: ARG002 - as its base
        base = {"id": self._id, "type": self.kind, "server_label": self._tool.server, "name": self._tool.name}
        return {**base, "arguments": self.text or "{}"}

    def begin(self) -> Iterator[ItemEvent]:
        yield from ()

    def add(self, text: str, chances: Sequence[dict[str, Any]] = ()) -> Iterator[ItemEvent]:  # noqa: ARG002 - as its base
        self._texts.append(text)
        yield from ()

    def end(self, status: str = "completed") -> Iterator[ItemEvent]:
        self.is_open = False
        for kind in ("output_item.added", "output_item.done"):
            yield kind, {"output_index": self.index, "item": self.json(status)}
