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


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool. If ``is_cut``, the arguments are only the beginning of a JSON object."""

    name: str
    arguments_json: str
    is_cut: bool = False


@dataclass(frozen=True)
class Output:
    """All of a model's output."""

    content: str
    thought: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


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
            return ContentPart("".join(part.text for part in parts if isinstance(part, ContentPart)))
        case ThoughtPart():
            return ThoughtPart("".join(part.text for part in parts if isinstance(part, ThoughtPart)))
