"""The parts of a model's output: content, thought, tool calls, in pieces and as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class ContentPart:
    """A piece of the content, which the user reads."""

    text: str


@dataclass(frozen=True)
class ThoughtPart:
    """A piece of the model's thought."""

    text: str


@dataclass(frozen=True)
class ToolCallStarted:
    """A call of a tool; ``index`` counts the calls from 0."""

    index: int
    name: str


@dataclass(frozen=True)
class ToolCallArguments:
    """A piece of a call's arguments. All pieces of a call together are a JSON object."""

    index: int
    json_fragment: str


OutputPart = ContentPart | ThoughtPart | ToolCallStarted | ToolCallArguments


def joined(parts: Iterable[OutputPart]) -> list[OutputPart]:
    """Returns the parts with neighbours of a kind, and of a call, joined."""
    return [_as_one(list(same)) for _, same in groupby(parts, key=_kind)]


def _kind(part: OutputPart) -> tuple[object, int]:
    return type(part), part.index if isinstance(part, ToolCallStarted | ToolCallArguments) else -1


def _as_one(parts: list[OutputPart]) -> OutputPart:
    match parts[0]:
        case ToolCallStarted() as part:
            return part
        case ToolCallArguments(index):
            return ToolCallArguments(index, "".join(p.json_fragment for p in parts if isinstance(p, ToolCallArguments)))
        case ContentPart():
            return ContentPart(joined_text(parts, ContentPart))
        case ThoughtPart():
            return ThoughtPart(joined_text(parts, ThoughtPart))


def joined_text(parts: Iterable[OutputPart], kind: type[ContentPart | ThoughtPart]) -> str:
    """Returns the text of all parts of a kind."""
    return "".join(part.text for part in parts if isinstance(part, kind))
