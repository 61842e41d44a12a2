"""Servers as the text of an editor. Besides whole files it takes what guides of servers show. Knows no Qt.

Some guides show an entry without the braces around it, and one that is pasted below another is added to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from engine import SafelightError
from engine.files import parse_json
from engine.tools.declared import MAX_DECLARATION_BYTES, ToolServer, read_servers, servers_to_json

MAX_PARTS = 32  # declarations below each other
HIDDEN = {"\u00a0": "\\u00a0", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters that an editor would change, as JSON may write them."""


def text_of(servers: Iterable[ToolServer]) -> str:
    """Returns the text to edit."""
    text = json.dumps(servers_to_json(servers), indent=2, ensure_ascii=False)
    for sign, written in HIDDEN.items():
        text = text.replace(sign, written)
    return text


def read_pasted(text: str) -> tuple[ToolServer, ...]:
    """Reads one or several declarations; of two servers with one name, the later counts.

    Raises:
        SafelightError: a sentence about the first fault.
    """
    name = "the text"
    if len(text) > MAX_DECLARATION_BYTES:
        raise SafelightError(f"{name} is longer than {MAX_DECLARATION_BYTES:,} characters")
    if not text.strip():
        return ()
    by_name: dict[str, ToolServer] = {}
    for raw in _parts(text, name):
        if isinstance(raw, Mapping) and not raw:
            continue
        servers, problems = read_servers(_inner(raw), name)
        if problems:
            raise SafelightError(problems[0])
        by_name |= {server.name: server for server in servers}
    return tuple(by_name.values())


def _inner(raw: Any) -> Any:
    """Returns what stands in "mcp", where the settings of VS Code declare servers."""
    if isinstance(raw, Mapping) and set(raw) == {"mcp"} and isinstance(raw["mcp"], Mapping):
        return raw["mcp"]
    return raw


def _parts(text: str, name: str) -> list[Any]:
    """Returns the values of a text: one object, several below each other, or the inside of one."""
    inside = text.strip().rstrip(",")
    if inside.startswith('"'):
        return [parse_json(f"{{{inside}}}", name)]
    ends = _ends(text)
    if len(ends) < 2:
        return [parse_json(text, name)]
    return [parse_json(text[start:end].lstrip(" \t\r\n,"), name) for start, end in zip((0, *ends), ends, strict=False)]


def _ends(text: str) -> tuple[int, ...]:
    """Returns where each of several objects ends; none if the text is not all objects."""
    decoder, ends, place = json.JSONDecoder(), list[int](), 0
    while len(ends) <= MAX_PARTS:
        start = len(text) - len(text[place:].lstrip(" \t\r\n,"))
        if start == len(text):
            return tuple(ends)
        try:
            _, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return ()
        ends.append(place)
    return ()
