"""Parses a model's output, as text with its tags, to content, thought and tool calls, as it arrives.

The result depends on the text alone, not on its division into pieces; time and memory grow with its length. No tag is
output. Deviations from the grammar are handled so:

- A thought that is never closed lasts to the end. ``thought\\n`` at the very beginning opens one, too.
- ``<think>`` and ``</think>`` are letters, which people also write about: they count at the beginning of a line, and
  ``</think>`` anywhere in a thought that ``<think>`` opened. So are ``<tool_call>``, which counts at the beginning of a
  line, or before a whole call of an offered tool, and ``</tool_call>``, which ends that call; a call that is no whole
  JSON object is content. Within a string of that object no tag counts.
- ``<channel|>`` may stand in place of ``<|tool_call>`` before a call of an offered tool.
- A tag that closes nothing, or opens a thought within a thought, is left out. ``<|"|>`` in a text is a quotation mark.
- Text after ``<|tool_call>`` that is no call is content. So is a call after ``MAX_CALLS`` others.
- Any tag but ``<|"|>`` ends a call and completes its arguments. What follows the arguments belongs to the call if
  ``<tool_call|>`` comes soon, and is content otherwise; but a second ``call:NAME{`` there is a second call.
- A call that the end of the text cuts short, or that is longer or deeper than what is read, stays unchanged. Its
  arguments are the beginning of a JSON object, so that nobody acts on half of what the model wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from engine.text.output_parts import ContentPart, OutputPart, ThoughtPart, joined, joined_text
from engine.text.tags import (
    CALL,
    CALL_END,
    CLOSE,
    ENDS,
    JSON_CALL,
    JSON_CALL_END,
    MARK,
    OPEN,
    THINK,
    THINK_END,
    THOUGHT,
    TagSplitter,
    beginning,
)
from engine.text.tool_call import NAME, JsonCall, ToolCallReader

Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schema of each tool's parameters, by its name; it decides the type of values without marks."""

_NONE: Schemas = MappingProxyType({})
_BEGINS_THOUGHT = f"{THOUGHT}\n"
_MAX_START = 64  # characters of white space before it
_BARE_CALL = re.compile(rf"\s*call\s*:\s*{NAME}\s*[{{(]")
_HALF_BARE_CALL = re.compile(r"\s*(?:c|ca|cal|call(?:\s*(?::\s*(?:[\w./-]+\s*)?)?)?)?")
_MAX_BARE = 200  # characters of its beginning
MAX_REREAD = 32
"""Beginnings of calls in JSON that were none, and are read again as something else."""


class OutputParser:
    """Reads the output of one run.

    Args:
        starts_in_thought: the prompt ends inside a thought: see ``engine.text.tags.starts_in_thought``.
        schemas: of the tools.
        any_tool: every name counts as that of an offered tool.
    """

    def __init__(self, *, starts_in_thought: bool = False, schemas: Schemas = _NONE, any_tool: bool = False) -> None:
        self._splitter = TagSplitter()
        self._content, self._thought, self._call = RunningText(), ThoughtText(), ToolCallReader(schemas)
        self._state: Literal["start", "content", "thought", "call", "ended"] = "start"
        self._start = ""  # text that may still open a thought
        self._takes_think_end = False  # ``</think>`` closes the thought
        self._parts: list[OutputPart] = []
        self._schemas, self._any_tool, self._has_tools = schemas, any_tool, any_tool or bool(schemas)
        self._json: JsonCall | None = None  # that is being read
        self._reread = 0
        self._bare: str | None = None  # text behind ``<channel|>`` that may begin a call
        if starts_in_thought:
            self._begin_thought(named=True, takes_think_end=True)

    def feed(self, text: str) -> list[OutputPart]:
        """Reads a piece of the text, and returns the finished parts."""
        for part, is_tag in self._splitter.feed(text):
            self._read(part, is_tag=is_tag)
        return self._new_parts()

    def finish(self) -> list[OutputPart]:
        """Ends the text, and returns the remaining parts."""
        self._read(self._splitter.finish(), is_tag=False)
        while self._json is not None:
            self._end_json()
        self._end_bare()
        if self._state == "call":
            self._back_to_content(self._call.finish())
        else:
            self._leave("")
        self._give(ContentPart(self._content.finish()))
        self._state = "ended"
        return self._new_parts()

    def _read(self, part: str, *, is_tag: bool) -> None:
        """Reads a tag, or text without one."""
        if self._json is None:
            (self._take_tag if is_tag else self._take)(part)
        elif self._json.takes(part, is_tag=is_tag):
            if self._json.is_broken:
                self._read_again()
        elif not self._end_json() or part != JSON_CALL_END:
            self._read(part, is_tag=True)

    def _end_json(self) -> bool:
        """Ends a call in JSON at a tag, or at the end of the text; False if it is none, and was read again."""
        call = self._json.read() if self._json else None
        if self._json is None or call is None or not (self._json.is_line or self._is_offered(call[0])):
            self._read_again()
            return False
        self._json = None
        self._leave(JSON_CALL)
        self._content.cut()
        self._call.give(*call)
        self._back_to_content("")
        return True

    def _read_again(self) -> None:
        """Reads what is no call in JSON as if its tags counted, or as text if it stands within a line."""
        json, self._json = self._json, None
        if json is None:
            return
        self._reread += 1
        if json.is_line:
            self._begin_call(JSON_CALL)
        else:
            self._take(JSON_CALL)
        for part, is_tag in json.parts:
            self._read(part, is_tag=is_tag)

    def _is_offered(self, name: str) -> bool:
        return self._any_tool or name in self._schemas

    def _begin_call(self, tag: str) -> None:
        self._leave(tag)
        self._content.cut()
        self._call.begin(is_json=tag == JSON_CALL)
        self._state = "call"

    def _take_bare(self, text: str) -> str:
        """Reads text behind ``<channel|>``, which may begin a call; returns what need not wait."""
        text, self._bare = (self._bare or "") + text, None
        match = _BARE_CALL.match(text)
        if match and self._is_offered(match["name"]) and not self._call.is_full:
            self._begin_call(CALL)
        elif len(text) <= _MAX_BARE and _HALF_BARE_CALL.fullmatch(text):
            self._bare = text
            return ""
        return text

    def _end_bare(self) -> None:
        text, self._bare = self._bare, None
        if text:
            self._take(text)

    def _take(self, text: str) -> None:
        """Reads text without tags."""
        if self._bare is not None:
            text = self._take_bare(text)
        if self._state == "start":
            text = self._take_start(text)
        if self._state == "call":
            text = self._call.add(text)
            self._parts += self._call.new_parts()
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
        if len(text) - len(body) <= _MAX_START:
            if body.startswith(_BEGINS_THOUGHT):
                self._begin_thought(named=False, takes_think_end=True)
                return body[len(_BEGINS_THOUGHT) :]
            if _BEGINS_THOUGHT.startswith(body):
                self._start = text
                return ""
        self._state = "content"
        return text

    def _take_tag(self, tag: str) -> None:
        self._end_bare()
        if tag == JSON_CALL and self._state in ("start", "content") and not self._call.is_full:
            is_line = self._counts(tag)
            if self._reread < MAX_REREAD and (is_line or self._has_tools):
                self._json = JsonCall(is_line=is_line)
                return
        if tag in (THINK, THINK_END, JSON_CALL, JSON_CALL_END) and not self._counts(tag):
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
            elif tag in (CALL, JSON_CALL) and not self._call.is_full:
                self._begin_call(tag)
            elif tag == CLOSE and self._has_tools:
                self._bare = ""
            elif tag in ENDS:
                self._state = "ended"

    def _counts(self, tag: str) -> bool:
        """Returns True if a tag in letters is one here, not text."""
        if tag == JSON_CALL_END:
            return self._state == "call" and self._call.is_json
        match self._state:
            case "content" | "start" if tag == JSON_CALL:
                return self._content.is_at_line_start and not self._start.strip()
            case _ if tag == JSON_CALL:
                return False
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
            self._parts += self._call.new_parts()
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
            self._back_to_content(self._call.end(by_its_tag=tag in (CALL_END, JSON_CALL_END)))
        if self._state != "ended":
            self._state = "content"

    def _back_to_content(self, text: str) -> None:
        """Ends a call; content follows it."""
        self._parts += self._call.new_parts()
        self._state = "content"
        self._content.cut()
        self._give(ContentPart(self._content.add(text)))

    def _give(self, part: ContentPart | ThoughtPart) -> None:
        if part.text:
            self._parts.append(part)

    def _new_parts(self) -> list[OutputPart]:
        parts, self._parts = self._parts, []
        return joined(parts)


def content_and_thought(text: str, *, starts_in_thought: bool = False) -> tuple[str, str]:
    """Returns the content and the thought of a whole output."""
    parser = OutputParser(starts_in_thought=starts_in_thought)
    parts = [*parser.feed(text), *parser.finish()]
    return joined_text(parts, ContentPart), joined_text(parts, ThoughtPart)


_TAIL = 32  # characters of the output that are remembered; more than any tag has


class RunningText:
    """One text that grows by pieces.

    White space after a tag is left out if the text before it ends with some, or is empty.
    """

    def __init__(self) -> None:
        self.is_at_line_start = True
        self._tail = ""
        self._lead: list[str] = []  # white space that waits for text after it
        self._is_fresh = True  # no text since the beginning, or since a tag
        self._was_cut = self._is_stripped = False

    @property
    def has_text(self) -> bool:
        return bool(self._tail)

    def cut(self, *, strip: bool = False) -> None:
        """Marks a tag. ``strip``: white space after it is left out in any case."""
        self._lead.clear()
        self.is_at_line_start = self._is_fresh = self._was_cut = True
        self._is_stripped = strip or not self._tail or self._tail[-1].isspace()

    def add(self, text: str) -> str:
        """Adds a piece; returns the text to output."""
        if self._is_fresh:
            body = text.lstrip()
            self._lead.append(text[: len(text) - len(body)])
            if not body:
                return ""
            lead = "" if self._is_stripped else "".join(self._lead)
            self._lead.clear()
            self._is_fresh = False
            text = (lead or self._gap()) + body
        return self._noted(text)

    def quote(self) -> str:
        """Adds a string's mark, which is a quotation mark in a text."""
        return self.add('"') if self._is_fresh else self._noted(self._gap() + '"')

    def finish(self) -> str:
        """Returns white space that still waits, if there was no tag at all."""
        return "" if self._was_cut else "".join(self._lead)

    def _gap(self) -> str:
        """Returns a space if the text so far and the text after a tag could form a tag together."""
        return " " if beginning(self._tail) else ""

    def _noted(self, text: str) -> str:
        line = text.rpartition("\n")
        self.is_at_line_start = (bool(line[1]) or self.is_at_line_start) and not line[2].strip()
        self._tail = (self._tail + text[-_TAIL:])[-_TAIL:]
        return text


class ThoughtText:
    """The text of all thoughts: without the channel's name and outer white space, a paragraph each."""

    def __init__(self) -> None:
        self._text = RunningText()
        self._start: str | None = None  # beginning of a thought, while it may be the channel's name
        self._space: list[str] = []  # after the text, while it may be the end

    @property
    def is_at_line_start(self) -> bool:
        """True if there is only white space on this line so far."""
        return self._text.is_at_line_start

    def begin(self, *, named: bool = True) -> None:
        """Begins a thought, with the name of its channel or without."""
        self._text.cut(strip=True)
        self._start = "" if named else None
        self._space = ["\n\n"] if self._text.has_text else []

    def cut(self) -> None:
        """Marks a tag that does not end the thought."""
        self._text.cut()

    def add(self, text: str) -> str:
        """Adds a piece; returns the text to output."""
        if self._start is not None:
            text = (self._start + text).lstrip()
            if THOUGHT.startswith(text):
                self._start = text
                return ""
            if text.startswith(THOUGHT) and text[len(THOUGHT)].isspace():
                text = text[len(THOUGHT) :]
            self._start = None
        return self._spaced(self._text.add(text))

    def quote(self) -> str:
        """Adds a string's mark, which is a quotation mark in a text."""
        return self.end() + self._spaced(self._text.quote())

    def end(self) -> str:
        """Ends the thought; returns the text that still waits."""
        start, self._start = self._start, None
        return self._spaced(self._text.add(start)) if start and start != THOUGHT else ""

    def _spaced(self, text: str) -> str:
        body = text.rstrip()
        if not body:
            self._space.append(text)
            return ""
        space, self._space = "".join(self._space), [text[len(body) :]]
        return space + body
