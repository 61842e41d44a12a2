"""Reads tool calls from after ``<|tool_call>``: ``call:NAME{``, the arguments, and the rest up to the end.

After ``<tool_call>`` a call is one JSON object: see ``engine.text.json_call``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from engine.text.coercion import ToolSchema
from engine.text.json_call import MOST_CALL, NAME, read_call
from engine.text.output_parts import OutputPart, ToolCallArguments, ToolCallStarted
from engine.text.tags import JSON_CALL, THINK, THINK_END
from engine.text.tool_arguments import ToolArguments

MOST_CALLS = 128
_MOST_HEAD = 200  # characters up to the bracket that opens the arguments
_MOST_BEHIND = 200  # characters after the closing bracket

_HEAD = re.compile(rf'\s*(?P<call>:?\s*(?:call)?\s*:)?\s*"?{NAME}"?\s*')
_HALF_HEAD = re.compile(r"\s*(?:c|ca|cal|call)?\s*(?::.*)?", re.DOTALL)
_ANOTHER = re.compile(rf"[\s,;)}}\]]*call\s*:\s*{NAME}\s*(?P<bracket>[{{(])")
_LEFT_OVER = " \t\n\r,;)}]"


class ToolCallReader:
    """Reads the calls of one output, one after the other: ``begin``, then ``add`` until it is over or ends.

    Args:
        schemas: the JSON schema of each tool's parameters, by its name.
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.is_over = True  # no call is being read
        self.cut: set[int] = set()  # calls, by index, whose arguments are only the beginning of an object
        self._schemas = schemas
        self._calls = 0
        self._state: Literal["head", "arguments", "behind", "cut", "json"] = "head"
        self._held: list[str] = []  # a head, or text after the arguments
        self._room = 0  # characters that may still be held, or that the arguments may still have
        self._arguments = ToolArguments("{", ToolSchema(None))
        self._parts: list[OutputPart] = []

    @property
    def is_full(self) -> bool:
        """True if no further call is read."""
        return self._calls >= MOST_CALLS

    @property
    def is_in_arguments(self) -> bool:
        """True if the next text belongs to a call's arguments."""
        return self._state in ("arguments", "cut", "json")

    @property
    def whole_calls(self) -> int:
        """The number of calls whose arguments have ended."""
        return self._calls - (self._state in ("arguments", "cut") and not self.is_over)

    def takes_name(self, name: str) -> bool:
        """Returns True for the name of an offered tool."""
        return name in self._schemas

    def give(self, name: str, arguments: dict[str, Any]) -> None:
        """Adds a call that was read elsewhere."""
        written = json.dumps(arguments, ensure_ascii=False)
        self._parts += [ToolCallStarted(self._calls, name), ToolCallArguments(self._calls, written)]
        self._calls += 1

    def take(self) -> list[OutputPart]:
        """Returns the parts read since the last time."""
        taken, self._parts = self._parts, []
        return taken

    @property
    def is_json(self) -> bool:
        """True while a call in JSON is being read."""
        return self._state == "json" and not self.is_over

    def begin(self, *, is_json: bool = False) -> None:
        self.is_over = False
        self._wait("json" if is_json else "head", MOST_CALL if is_json else _MOST_HEAD)

    def add(self, text: str) -> str:
        """Reads on; returns the content that follows if the call is over, or if there was none."""
        while text and not self.is_over:
            match self._state:
                case "head":
                    text = self._add_head(text)
                case "arguments":
                    text = self._add_arguments(text)
                case "behind":
                    text = self._add_behind(text)
                case "cut":
                    return ""
                case "json":
                    self._hold(text)
                    self.is_over = self._room < 0
                    return self._held_text() if self.is_over else ""
        return text

    def mark(self) -> str:
        """Reads a string's mark; returns the same as ``add``."""
        if self._state == "arguments":
            self._arguments.mark()
            self._give_arguments()
            return ""
        return self.add('"')

    def end(self, *, by_its_tag: bool) -> str:
        """Ends the call at a tag, its own or another; returns the content before that tag."""
        self.is_over = True
        if self._state == "json":
            return self._end_json()
        name = self._name() if self._state == "head" else ""
        if name:
            self._begin_arguments(name, "{")
        if self._state == "arguments":
            self._arguments.close()
            self._give_arguments()
        elif self._state == "head":
            return self._held_text()
        return "" if by_its_tag or self._state != "behind" else self._left_behind()

    def finish(self) -> str:
        """Ends the text; returns the content at its end."""
        self.is_over = True
        if self._state == "json":
            return self._end_json()
        if self._state == "arguments":
            self.cut.add(self._calls - 1)
        elif self._state == "head":
            return "" if _HALF_HEAD.fullmatch(self._held_text()) else self._held_text()
        return self._left_behind() if self._state == "behind" else ""

    def _end_json(self) -> str:
        """Reads a call in JSON; returns it as content, without tags, if it is none."""
        held = self._held_text()
        call = read_call(held)
        if call is None:
            return re.sub("|".join(map(re.escape, (THINK, THINK_END, JSON_CALL))), "", held)
        self.give(*call)
        return ""

    def _add_head(self, text: str) -> str:
        found = re.search(r"[{(]", text)
        head = text[: found.start()] if found else text
        self._hold(head)
        name = self._name() if found else ""
        if found and name:
            self._begin_arguments(name, found[0])
            return text[found.end() :]
        self.is_over = found is not None or self._room < 0
        return self._held_text() + text[len(head) :] if self.is_over else ""

    def _add_arguments(self, text: str) -> str:
        room = self._room
        self._room -= len(text)
        rest = self._arguments.add(text[:room]) + text[room:]
        self._give_arguments()
        if self._arguments.is_closed:
            self._wait("behind", _MOST_BEHIND)
            return rest
        if self._arguments.is_too_deep or self._room < 0:
            self.cut.add(self._calls - 1)
            self._state = "cut"
        return ""

    def _add_behind(self, text: str) -> str:
        room = self._room
        self._hold(text[:room])
        another = None if self.is_full else _ANOTHER.match(self._held_text())
        if another:
            rest = self._held_text()[another.end() :] + text[room:]
            self._begin_arguments(another["name"], another["bracket"])
            return rest
        self.is_over = len(text) > room
        return self._left_behind() + text[room:] if self.is_over else ""

    def _wait(self, state: Literal["head", "arguments", "behind", "json"], room: int) -> None:
        self._state, self._room = state, room
        self._held.clear()

    def _begin_arguments(self, name: str, bracket: str) -> None:
        self._wait("arguments", MOST_CALL)
        self._arguments = ToolArguments(bracket, ToolSchema(self._schemas.get(name)))
        self._parts.append(ToolCallStarted(self._calls, name))
        self._calls += 1
        self._give_arguments()

    def _give_arguments(self) -> None:
        written = self._arguments.take()
        if written:
            self._parts.append(ToolCallArguments(self._calls - 1, written))

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._room -= len(text)

    def _held_text(self) -> str:
        return "".join(self._held)

    def _name(self) -> str:
        """Returns the name in the head; empty if that is none."""
        found = _HEAD.fullmatch(self._held_text()) if self._room >= 0 else None
        return found["name"] if found and (found["call"] or found["name"] in self._schemas) else ""

    def _left_behind(self) -> str:
        """Returns content after the arguments, without surplus brackets."""
        held = self._held_text()
        return held.lstrip(_LEFT_OVER) if held.strip(_LEFT_OVER + '"') else ""
