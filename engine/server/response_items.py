"""The items of a response's output, as they grow, with the events that say so."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Literal

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
