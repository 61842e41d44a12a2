"""The items of a growing response, each as OpenAI's events report it: a thought, a text, a call of a function."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, Literal

ItemKind = Literal["reasoning", "message", "function_call"]
ItemEvent = tuple[str, dict[str, Any]]
"""An event's type without ``response.``, and its fields except the sequence number."""

_PREFIXES: dict[ItemKind, str] = {"reasoning": "rs", "message": "msg", "function_call": "fc"}
_PARTS: dict[ItemKind, str] = {"reasoning": "reasoning_text", "message": "output_text"}


class GrowingItem:
    """One item of the output, from its first piece to its end; ``text`` also holds a call's arguments."""

    def __init__(self, kind: ItemKind, index: int, name: str = "") -> None:
        self.kind, self.index, self._name = kind, index, name
        self._id = f"{_PREFIXES[kind]}_{secrets.token_hex(16)}"
        self._call_id = f"call_{secrets.token_hex(12)}"
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def json(self, status: str) -> dict[str, Any]:
        """Returns the current item; while it is in progress, without its content."""
        base = {"id": self._id, "type": self.kind, "status": status}
        is_begun = status != "in_progress"
        match self.kind:
            case "message":
                return {**base, "role": "assistant", "content": [self._part(self.text)] if is_begun else []}
            case "reasoning":
                return {**base, "summary": [], "content": [self._part(self.text)] if is_begun else []}
        arguments = (self.text or "{}") if is_begun else ""
        return {**base, "call_id": self._call_id, "name": self._name, "arguments": arguments}

    def begin(self) -> Iterator[ItemEvent]:
        yield "output_item.added", {"output_index": self.index, "item": self.json("in_progress")}
        if self.kind != "function_call":
            yield "content_part.added", {**self._place(), "part": self._part("")}

    def add(self, text: str) -> Iterator[ItemEvent]:
        """Adds text."""
        self._texts.append(text)
        if self.kind == "function_call":
            yield "function_call_arguments.delta", {**self._spot(), "delta": text}
        else:
            yield f"{_PARTS[self.kind]}.delta", {**self._place(), "delta": text, **self._logprobs()}

    def end(self, status: str = "completed") -> Iterator[ItemEvent]:
        if self.kind == "function_call":
            arguments = self.text or "{}"
            yield "function_call_arguments.done", {**self._spot(), "name": self._name, "arguments": arguments}
        else:
            yield f"{_PARTS[self.kind]}.done", {**self._place(), "text": self.text, **self._logprobs()}
            yield "content_part.done", {**self._place(), "part": self._part(self.text)}
        yield "output_item.done", {"output_index": self.index, "item": self.json(status)}

    def _spot(self) -> dict[str, Any]:
        return {"item_id": self._id, "output_index": self.index}

    def _place(self) -> dict[str, Any]:
        return {**self._spot(), "content_index": 0}

    def _logprobs(self) -> dict[str, Any]:
        return {"logprobs": []} if self.kind == "message" else {}

    def _part(self, text: str) -> dict[str, Any]:
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
