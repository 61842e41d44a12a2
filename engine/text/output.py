"""A model's output, as text with its tags, to content, thought and tool calls, while it comes.

The result depends on the text alone, not on the pieces it comes in, and time and memory grow with it. No tag is given
out. Where the grammar is not kept:

- A thought that is never closed is thought to the end. ``thought\\n`` at the very beginning opens one, too.
- ``<think>`` and ``</think>`` are letters, which people also write about: they count at the beginning of a line, and
  ``</think>`` anywhere in a thought that ``<think>`` opened.
- What closes nothing, and what opens a thought within a thought, is left out. ``<|"|>`` in a text is a quotation mark.
- What stands behind ``<|tool_call>`` and is no call is content. So is a call when ``MOST_CALLS`` came before it.
- Any tag but ``<|"|>`` ends a call, and completes its arguments. Text behind the arguments belongs to the call if
  ``<tool_call|>`` follows soon, and is content otherwise.
- A call that the end of the text cuts short, or that is longer or deeper than what is read, stays as it is: its
  arguments are the beginning of a JSON object, which nobody can take for what the model wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from engine.text.coercion import ToolSchema
from engine.text.output_parts import (
    ContentPart,
    Output,
    OutputPart,
    ThoughtPart,
    ToolCall,
    ToolCallArguments,
    ToolCallStarted,
    joined,
)
from engine.text.running_text import RunningText, ThoughtText
from engine.text.tags import CALL, CALL_END, CLOSE, ENDS, MARK, OPEN, THINK, THINK_END, TagSplitter
from engine.text.tool_arguments import ToolArguments

MOST_CALLS = 128
MOST_CALL = 2**20  # characters of one call's arguments
_MOST_HEAD = 200  # characters up to the bracket that opens the arguments
_MOST_BEHIND = 200  # characters behind the one that closes them
_MOST_START = 64  # characters in which an answer may open a thought without a tag

_HEAD = re.compile(r'\s*(?P<call>(?:call)?\s*:)?\s*"?(?P<name>[\w./-]{1,128})"?\s*')
_HALF_HEAD = re.compile(r"\s*(?:c|ca|cal|call)?\s*(?::.*)?", re.DOTALL)
_ANOTHER = re.compile(r"[\s,;)}\]]*call\s*:\s*(?P<name>[\w./-]{1,128})\s*(?P<bracket>[{(])")
_CLOSERS = ' \t\n\r,;")}]'
_THOUGHT = "thought\n"


_State = Literal["start", "content", "thought", "head", "arguments", "behind", "cut call", "ended"]


class OutputParser:
    """Reads the output of one run.

    Args:
        starts_in_thought: the prompt ends inside a thought: see ``engine.text.tags.starts_in_thought``.
        schemas: the JSON schema of each tool's parameters, by its name; says what values without marks are.
    """

    def __init__(
        self, *, starts_in_thought: bool = False, schemas: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    ) -> None:
        self._schemas = schemas
        self._splitter = TagSplitter()
        self._content, self._thought = RunningText(), ThoughtText()
        self._state: _State = "start"
        self._held: list[str] = []  # text that may turn out to be something else
        self._room = 0  # characters that may still be held, or that the arguments may still take
        self._arguments = ToolArguments("{", ToolSchema(None))
        self._takes_think_end = False  # ``</think>`` closes the thought
        self._calls = 0
        self._cut: set[int] = set()
        self._given: list[OutputPart] = []
        if starts_in_thought:
            self._begin_thought(named=True, takes_think_end=True)
        else:
            self._room = _MOST_START

    @property
    def cut_calls(self) -> frozenset[int]:
        """The calls, by index, whose arguments were cut short."""
        return frozenset(self._cut)

    def feed(self, text: str) -> list[OutputPart]:
        """Take in a piece of the text."""
        for part, is_tag in self._splitter.feed(text):
            if is_tag:
                self._take_tag(part)
            else:
                self._take(part)
        return self._taken()

    def finish(self) -> list[OutputPart]:
        """The text has ended: what still waits."""
        self._take(self._splitter.finish())
        if self._state == "arguments":
            self._cut.add(self._calls - 1)
        elif self._state != "head" or not _HALF_HEAD.fullmatch(self._held_text()):
            self._leave()
        self._give(ContentPart, self._content.finish())
        self._state = "ended"
        return self._taken()

    # ---------------------------------------------------------------- text

    def _take(self, text: str) -> None:
        """Text without tags."""
        while text:
            match self._state:
                case "start":
                    text = self._take_start(text)
                case "content":
                    self._give(ContentPart, self._content.add(text))
                    return
                case "thought":
                    self._give(ThoughtPart, self._thought.add(text))
                    return
                case "head":
                    text = self._take_head(text)
                case "arguments":
                    text = self._take_arguments(text)
                case "behind":
                    text = self._take_behind(text)
                case _:
                    return

    def _take_start(self, text: str) -> str:
        """The beginning, which may open a thought without a tag; returns what is not taken."""
        text = self._held_text() + text
        self._held.clear()
        body = text.lstrip()
        if len(text) - len(body) <= _MOST_START:
            if body.startswith(_THOUGHT):
                self._begin_thought(named=False, takes_think_end=True)
                return body[len(_THOUGHT) :]
            if _THOUGHT.startswith(body):
                self._held.append(text)
                return ""
        self._state = "content"
        return text

    def _take_head(self, text: str) -> str:
        """A call up to the bracket that opens its arguments; returns what is not taken."""
        found = re.search(r"[{(]", text)
        head = text[: found.start()] if found else text
        self._hold(head)
        name = self._name() if found else ""
        if found and name:
            self._begin_call(name, found[0])
            return text[found.end() :]
        if found or self._room < 0:
            self._leave()
        return text[len(head) :]

    def _take_arguments(self, text: str) -> str:
        """A call's arguments; returns what is not taken."""
        room = self._room
        self._room -= len(text)
        rest = self._arguments.add(text[:room]) + text[room:]
        self._give_arguments()
        if self._arguments.is_closed:
            self._wait("behind", _MOST_BEHIND)
            return rest
        if self._arguments.is_too_deep or self._room < 0:
            self._cut.add(self._calls - 1)
            self._state = "cut call"
        return ""

    def _take_behind(self, text: str) -> str:
        """Text behind a call's arguments; returns what is not taken."""
        self._hold(text)
        held = self._held_text()
        another = _ANOTHER.match(held[:_MOST_BEHIND])
        if another and self._calls < MOST_CALLS:
            self._begin_call(another["name"], another["bracket"])
            return held[another.end() :]
        if self._room < 0:
            self._leave()
        return ""

    # ---------------------------------------------------------------- tags

    def _take_tag(self, tag: str) -> None:
        if tag in (THINK, THINK_END) and not self._counts(tag):
            self._take(tag)
        elif tag == MARK:
            self._take_mark()
        elif self._state == "thought" and tag not in (OPEN, THINK, CLOSE, THINK_END, CALL, *ENDS):
            self._thought.cut()
        elif self._state != "ended":
            is_empty_thought = tag == CLOSE and self._state == "start" and self._held_text().strip() == _THOUGHT.strip()
            if is_empty_thought or (tag == CALL_END and self._state == "behind"):
                self._held.clear()
            self._leave()
            self._content.cut()
            if tag in (OPEN, THINK):
                self._begin_thought(named=tag == OPEN, takes_think_end=tag == THINK)
            elif tag == CALL and self._calls < MOST_CALLS:
                self._wait("head", _MOST_HEAD)
            elif tag in ENDS:
                self._state = "ended"

    def _counts(self, tag: str) -> bool:
        """Whether ``<think>`` or ``</think>`` is more than letters here."""
        match self._state:
            case "start":
                return not self._held_text().strip()
            case "content":
                return self._content.is_at_line_start
            case "thought":
                return self._thought.is_at_line_start or (tag == THINK_END and self._takes_think_end)
        return False

    def _take_mark(self) -> None:
        if self._state == "start":
            self._leave()
        match self._state:
            case "content":
                self._give(ContentPart, self._content.quote())
            case "thought":
                self._give(ThoughtPart, self._thought.quote())
            case "arguments":
                self._arguments.mark()
                self._give_arguments()
            case "head" | "behind":
                self._take('"')

    # ---------------------------------------------------------------- states

    def _wait(self, state: _State, room: int) -> None:
        """Text is held from here on."""
        self._held.clear()
        self._state, self._room = state, room

    def _held_text(self) -> str:
        return "".join(self._held)

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._room -= len(text)

    def _begin_thought(self, *, named: bool, takes_think_end: bool) -> None:
        self._thought.begin(named=named)
        self._state, self._takes_think_end = "thought", takes_think_end

    def _name(self) -> str:
        """The name in a call's head; empty if that is none."""
        found = _HEAD.fullmatch(self._held_text()) if self._room >= 0 else None
        return found["name"] if found and (found["call"] or found["name"] in self._schemas) else ""

    def _begin_call(self, name: str, bracket: str) -> None:
        self._wait("arguments", MOST_CALL)
        self._arguments = ToolArguments(bracket, ToolSchema(self._schemas.get(name)))
        self._given.append(ToolCallStarted(self._calls, name))
        self._calls += 1
        self._give_arguments()

    def _leave(self) -> None:
        """What is open ends; content comes next."""
        state, held = self._state, self._held_text()
        if state == "thought":
            self._give(ThoughtPart, self._thought.end())
        elif state == "head" and self._name():
            self._begin_call(self._name(), "{")
            state, held = "arguments", ""
        if state == "arguments":
            self._arguments.close()
            self._give_arguments()
        self._held.clear()
        self._state = "content"
        if state in ("start", "head") or (state == "behind" and held.strip(_CLOSERS)):
            self._give(ContentPart, self._content.add(held))

    # ---------------------------------------------------------------- parts

    def _give_arguments(self) -> None:
        self._give(partial(ToolCallArguments, self._calls - 1), self._arguments.take())

    def _give(self, part: Callable[[str], OutputPart], text: str) -> None:
        if text:
            self._given.append(part(text))

    def _taken(self) -> list[OutputPart]:
        """What is to be given out, neighbours of a kind as one."""
        given, self._given = self._given, []
        return joined(given)


def parse_output(
    text: str, *, starts_in_thought: bool = False, schemas: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> Output:
    """Read an output that is there as a whole."""
    parser = OutputParser(starts_in_thought=starts_in_thought, schemas=schemas)
    content: list[str] = []
    thought: list[str] = []
    names: list[str] = []
    arguments: list[list[str]] = []
    for part in (*parser.feed(text), *parser.finish()):
        match part:
            case ContentPart(piece):
                content.append(piece)
            case ThoughtPart(piece):
                thought.append(piece)
            case ToolCallStarted(_, name):
                names.append(name)
                arguments.append([])
            case ToolCallArguments(index, piece):
                arguments[index].append(piece)
    cut = parser.cut_calls
    calls = (ToolCall(name, "".join(arguments[index]), index in cut) for index, name in enumerate(names))
    return Output("".join(content), "".join(thought), tuple(calls))
