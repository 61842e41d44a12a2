"""A tool, the result of a call, and the state of a server, as plain data within bounds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from engine.files import storable

if TYPE_CHECKING:
    import mcp_types as types

    from engine.tools.declared import ToolServer

MAX_TOOLS = 128  # of a server; more would fill a prompt
LONGEST_DESCRIPTION = 2_000  # characters
LONGEST_SCHEMA = 32_768  # characters of JSON
DEEPEST_SCHEMA = 24
LONGEST_RESULT = 32_000  # characters that a model reads
MAX_ROUNDS = 8  # of calls in one answer
MAX_CALLS = 16  # of one round; a model that repeats itself writes more
REFUSED = "The user did not allow this call."
"""The result of a call that the user did not allow, for the model to read."""
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool of a server.

    Args:
        called: its name in prompts and calls, unlike that of all others.
        parameters: a JSON schema.
        is_read_only: its server says that it changes nothing.
        identity: of its server's declaration, which may come to be another's of the same name.
    """

    server: str
    name: str
    called: str
    title: str = ""
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    is_read_only: bool = False
    identity: str = ""

    @property
    def function(self) -> dict[str, Any]:
        """The tool as chat templates take it."""
        schema = self.parameters or {"type": "object", "properties": {}}
        function = {"name": self.called, "description": self.description, "parameters": schema}
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolResult:
    """The answer of a tool. ``seconds``: how long the call took."""

    text: str
    is_error: bool = False
    seconds: float = 0.0


Status = Literal["off", "starting", "ready", "failed"]


@dataclass(frozen=True, eq=False)
class ToolServerState:
    """The state of a server, at one time.

    Args:
        problem: what went wrong, to follow the server's name; empty while all is well.
        log: the last lines that it wrote to its standard error.
    """

    server: ToolServer
    status: Status = "off"
    tools: tuple[Tool, ...] = ()
    problem: str = ""
    log: str = ""


def read_tool(server: ToolServer, raw: types.Tool) -> Tool | None:
    """Reads a tool of a server; None if its name or its schema is out of bounds."""
    written = json.dumps(raw.input_schema)
    if not _NAME.fullmatch(raw.name) or len(written) > LONGEST_SCHEMA or _depth(raw.input_schema) > DEEPEST_SCHEMA:
        return None
    hints = raw.annotations
    title = raw.title or (hints.title if hints is not None else None) or ""
    return Tool(
        server.name,
        raw.name,
        raw.name,
        storable(" ".join(title.split()))[:200],
        storable(raw.description or "")[:LONGEST_DESCRIPTION],
        raw.input_schema,
        is_read_only=hints is not None and hints.read_only_hint is True,
        identity=server.identity,
    )


def distinct(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Returns tools of which none is called like another: those of one name get their server's before it."""
    listed = list(tools)
    counts = Counter(tool.name for tool in listed)
    by_call = dict[str, Tool]()
    for tool in listed:
        server = re.sub(r"[^A-Za-z0-9_-]+", "_", tool.server)[:48] or "server"
        called = tool.name if counts[tool.name] == 1 else f"{server}.{tool.name}"[:128]
        by_call.setdefault(called, replace(tool, called=called))
    return tuple(by_call.values())


def read_result(raw: types.CallToolResult, seconds: float) -> ToolResult:
    """Reads the result of a call as text: its texts, the names of what is no text, or its JSON if there is neither."""
    parts = [_part(block) for block in raw.content[:MAX_TOOLS]]
    if not any(part.strip() for part in parts) and raw.structured_content is not None:
        parts = [json.dumps(raw.structured_content, ensure_ascii=False)]
    return ToolResult(cut(storable("\n".join(parts))), bool(raw.is_error), seconds)


def cut(text: str) -> str:
    """Returns the beginning of a text that is too long for a model, and how much is left out."""
    if len(text) <= LONGEST_RESULT:
        return text
    return f"{text[:LONGEST_RESULT]}\n… ({len(text) - LONGEST_RESULT:,} more characters are left out)"


def _part(block: types.ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "resource":
            text = getattr(block.resource, "text", None)
            return text if isinstance(text, str) else f"[{block.resource.uri}]"
        case "resource_link":
            return f"[{block.uri}]"
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4:,} bytes]"


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= DEEPEST_SCHEMA:
        depth += 1
        lists = [one.values() if isinstance(one, Mapping) else one for one in level if isinstance(one, Mapping | list)]
        level = [inner for one in lists for inner in one]
    return depth
