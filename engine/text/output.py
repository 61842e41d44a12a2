"""Parses a model's output, as text with its tags, to content, thought and tool calls, as it arrives.

The result depends on the text alone, not on its division into pieces; time and memory grow with its length. No tag is
output. Deviations from the grammar are handled so:

- A thought that is never closed lasts to the end. ``thought\\n`` at the very beginning opens one, too.
- ``<think>`` and ``</think>`` are letters, which people also write about: they count at the beginning of a line, and
  ``</think>`` anywhere in a thought that ``<think>`` opened.
- A tag that closes nothing, or opens a thought within a thought, is left out. ``<|"|>`` in a text is a quotation mark.
- Text after ``<|tool_call>`` that is no call is content. So is a call after ``MOST_CALLS`` others.
- Any tag but ``<|"|>`` ends a call and completes its arguments. What follows the arguments belongs to the call if
  ``<tool_call|>`` comes soon, and is content otherwise; but a second ``call:NAME{`` there is a second call.
- A call that the end of the text cuts short, or that is longer or deeper than what is read, stays unchanged. Its
  arguments are the beginning of a JSON object, so that nobody acts on half of what the model wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from engine.text.output_parts import ContentPart, OutputPart, ThoughtPart, joined, joined_text
from engine.text.running_text import RunningText, ThoughtText
from engine.text.tags import CALL, CALL_END, CLOSE, ENDS, MARK, OPEN, THINK, THINK_END, THOUGHT, TagSplitter
from engine.text.tool_call import ToolCallReader

Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schema of each tool's parameters, by its name; it decides the type of values without marks."""

_NONE: Schemas = MappingProxyType({})
_BEGINS_THOUGHT = f"{THOUGHT}\n"
_MOST_START = 64  # characters of white space before it


class OutputParser:
    """Reads the output of one run.

    Args:
        starts_in_thought: the prompt ends inside a thought: see ``engine.text.tags.starts_in_thought``.
        schemas: of the tools.
    """

    def __init__(self, *, starts_in_thought: bool = False, schemas: Schemas = _NONE) -> None:
        self._splitter = TagSplitter()
        self._content, self._thought, self._call = RunningText(), ThoughtText(), ToolCallReader(schemas)
        self._state: Literal["start", "content", "thought", "call", "ended"] = "start"
        self._start = ""  # text that may still open a thought
        self._takes_think_end = False  # ``</think>`` closes the thought
        self._given: list[OutputPart] = []
        if starts_in_thought:
            self._begin_thought(named=True, takes_think_end=True)

    @property
    def cut_calls(self) -> frozenset[int]:
        """The calls, by index, whose arguments were cut short."""
        return frozenset(self._call.cut)

    def feed(self, text: str) -> list[OutputPart]:
        """Reads a piece of the text, and returns the finished parts."""
        for part, is_tag in self._splitter.feed(text):
            if is_tag:
                self._take_tag(part)
            else:
                self._take(part)
        return self._taken()

    def finish(self) -> list[OutputPart]:
        """Ends the text, and returns the remaining parts."""
        self._take(self._splitter.finish())
        if self._state == "call":
            self._back_to_content(self._call.finish())
        else:
            self._leave("")
        self._give(ContentPart(self._content.finish()))
        self._state = "ended"
        return self._taken()

    def _take(self, text: str) -> None:
        """Reads text without tags."""
        if self._state == "start":
            text = self._take_start(text)
        if self._state == "call":
            text = self._call.add(text)
            self._given += self._call.take()
            if self._call.is_over:
                self._back_to_content(text)
        elif self._state == "content":
            self._give(ContentPart(self._content.add(text)))
        elif self._state == "thought":
            self._give(ThoughtPart(self._thought.add(text)))

    def _take_start(self, text: str) -> str:
        """Reads the beginning, which may open a thought without a tag; returns the text that need not wait."""
        text, self._start = self._start + text, ""
        body = text.lstrip()
        if len(text) - len(body) <= _MOST_START:
            if body.startswith(_BEGINS_THOUGHT):
                self._begin_thought(named=False, takes_think_end=True)
                return body[len(_BEGINS_THOUGHT) :]
            if _BEGINS_THOUGHT.startswith(body):
                self._start = text
                return ""
        self._state = "content"
        return text

    def _take_tag(self, tag: str) -> None:
        if tag in (THINK, THINK_END) and not self._counts(tag):
            self._take(tag)
        elif tag == MARK:
            self._take_mark()
        elif self._state == "thought" and tag not in (OPEN, THINK, CLOSE, THINK_END, CALL, *ENDS):
            self._thought.cut()
        elif self._state != "ended":
            self._leave(tag)
            self._content.cut()
            if tag in (OPEN, THINK):
                self._begin_thought(named=tag == OPEN, takes_think_end=tag == THINK)
            elif tag == CALL and not self._call.is_full:
                self._call.begin()
                self._state = "call"
            elif tag in ENDS:
                self._state = "ended"

    def _counts(self, tag: str) -> bool:
        """Returns True if ``<think>`` or ``</think>`` is a tag here, not text."""
        match self._state:
            case "start":
                return not self._start.strip()
            case "content":
                return self._content.is_at_line_start
            case "thought":
                return self._thought.is_at_line_start or (tag == THINK_END and self._takes_think_end)
            case "call":
                return not self._call.is_in_arguments
        return False

    def _take_mark(self) -> None:
        if self._state == "start":
            self._leave(MARK)
        if self._state == "call":
            text = self._call.mark()
            self._given += self._call.take()
            if self._call.is_over:
                self._back_to_content(text)
        elif self._state == "content":
            self._give(ContentPart(self._content.quote()))
        elif self._state == "thought":
            self._give(ThoughtPart(self._thought.quote()))

    def _begin_thought(self, *, named: bool, takes_think_end: bool) -> None:
        self._thought.begin(named=named)
        self._state, self._takes_think_end = "thought", takes_think_end

    def _leave(self, tag: str) -> None:
        """Ends the open state at a tag, or at the end of the text; content comes next."""
        if self._state == "start":
            start = "" if tag == CLOSE and self._start.strip() == THOUGHT else self._start
            self._start = ""
            self._give(ContentPart(self._content.add(start)))
        elif self._state == "thought":
            self._give(ThoughtPart(self._thought.end()))
        elif self._state == "call":
            self._back_to_content(self._call.end(by_its_tag=tag == CALL_END))
        if self._state != "ended":
            self._state = "content"

    def _back_to_content(self, text: str) -> None:
        """Ends a call; content follows it."""
        self._given += self._call.take()
        self._state = "content"
        self._content.cut()
        self._give(ContentPart(self._content.add(text)))

    def _give(self, part: ContentPart | ThoughtPart) -> None:
        if part.text:
            self._given.append(part)

    def _taken(self) -> list[OutputPart]:
        given, self._given = self._given, []
        return joined(given)


def content_and_thought(text: str, *, starts_in_thought: bool = False) -> tuple[str, str]:
    """Returns the content and the thought of a whole output."""
    parser = OutputParser(starts_in_thought=starts_in_thought)
    parts = [*parser.feed(text), *parser.finish()]
    return joined_text(parts, ContentPart), joined_text(parts, ThoughtPart)
