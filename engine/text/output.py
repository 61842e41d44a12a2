"""What an answer is made of. A stand-in: everything is content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ContentPart:
    """Text of the answer."""

    text: str


@dataclass(frozen=True)
class ThoughtPart:
    """Text of a thought."""

    text: str


@dataclass(frozen=True)
class ToolCallStarted:
    """A call begins."""

    index: int
    name: str


@dataclass(frozen=True)
class ToolCallArguments:
    """More of a call's arguments."""

    index: int
    json_fragment: str


OutputPart = ContentPart | ThoughtPart | ToolCallStarted | ToolCallArguments


class OutputParser:
    """Passes everything on."""

    def __init__(
        self, *, starts_in_thought: bool = False, schemas: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self._starts_in_thought, self._schemas = starts_in_thought, schemas

    def feed(self, text: str) -> list[OutputPart]:
        return [ContentPart(text)] if text else []

    def finish(self) -> list[OutputPart]:
        return []
