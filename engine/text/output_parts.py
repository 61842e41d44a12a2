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
class ToolCallPart:
    """A call of a tool; ``index`` counts the calls from 0.

    ``arguments`` are a JSON object, or only its beginning if the call ``is_cut``.
    """

    index: int
    name: str
    arguments: str
    is_cut: bool = False


OutputPart = ContentPart | ThoughtPart | ToolCallPart


def joined(parts: Iterable[OutputPart]) -> list[OutputPart]:
    """Returns the parts with neighbouring texts of a kind joined."""
    merged: list[OutputPart] = []
    for kind, same in groupby(parts, key=type):
        these = list(same)
        merged += these if kind is ToolCallPart else [kind(joined_text(these, kind))]
    return merged


def joined_text(parts: Iterable[OutputPart], kind: type[ContentPart | ThoughtPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, kind))
