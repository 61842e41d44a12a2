"""Declarations of tool servers, as the files of other programs have them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import SafelightError
from engine.tools.declared import MAX_SERVERS, ToolServer, read_servers, servers_to_json
from engine.tools.tool import Tool, distinct

TIME = {"command": "uvx", "args": ["mcp-server-time", "--local-timezone", "Europe/Berlin"]}


def test_the_notations_of_others_are_read_and_written() -> None:
    for key in ("mcpServers", "servers"):
        raw = {key: {"time": TIME, "docs": {"type": "http", "url": "https://x.org/mcp", "headers": {"X-Key": "1"}}}}
        servers, problems = read_servers(raw)
        assert problems == ()
        assert servers == (
            ToolServer("time", "uvx", tuple(TIME["args"])),
            ToolServer("docs", url="https://x.org/mcp", headers=(("X-Key", "1"),)),
        )
        assert read_servers(servers_to_json(servers)) == (servers, ())
    off = ToolServer("files", "npx", ("a",), (("K", "v"),), "/tmp", is_on=False)
    assert read_servers(servers_to_json([off])) == ((off,), ())


def test_leave_is_bound_to_what_is_run() -> None:
    one = ToolServer("time", "uvx", ("a", "b"))
    assert one.identity == ToolServer("clock", "uvx", ("a", "b"), is_on=False).identity
    others = [ToolServer("time", "uvx", ("a b",)), ToolServer("time", "uvx", ("a", "b"), (("PATH", "/x"),))]
    others += [ToolServer("time", "uvx", ("a", "b"), cwd="/x"), ToolServer("time", url="http://uvx")]
    assert len({one.identity, *(other.identity for other in others)}) == 5


def test_loopback_is_this_machine() -> None:
    urls = ("http://localhost:3/mcp", "http://127.0.0.9/", "http://[::1]:4/", "http://x.org")
    assert [ToolServer("x", url=url).is_remote for url in urls] == [False, False, False, True]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "needs a command or a url"),
        ({"command": "x", "url": "http://x"}, "and not both"),
        ({"command": "x", "args": "y"}, "must be a list"),
        ({"command": "x", "args": ["y"] * 200}, "must have 0 to 128 entries"),
        ({"command": "x\0"}, "must be a text"),
        ({"command": "x", "env": {"A": 1}}, "must be a text"),
        ({"url": "file:///etc"}, "write http://"),
        ({"url": "http://["}, "write http://"),
        ({"url": "http://x", "headers": {"A\r\nB": "1"}}, "a sign that no header may have"),
    ],
)
def test_a_wrong_entry_is_said_and_the_others_are_read(entry: dict[str, Any], said: str) -> None:
    servers, (problem,) = read_servers({"mcpServers": {"bad": entry, "time": TIME}})
    assert [server.name for server in servers] == ["time"]
    assert said in problem


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ([], "declares no servers"),
        ({"theme": "dark"}, "declares no servers"),
        ({"servers": {str(n): {} for n in range(MAX_SERVERS + 1)}}, "are the most"),
    ],
)
def test_a_file_without_declarations_is_refused(raw: Any, sentence: str) -> None:
    with pytest.raises(SafelightError, match=sentence):
        read_servers(raw, "the declaration")


def test_no_tool_is_called_like_one_of_another_server() -> None:
    given = [
        Tool(*tool.split(":"), called="") for tool in ("my files:read", "web:read", "web:a.b", "web:my_files.read")
    ]
    assert [tool.called for tool in distinct(given)] == ["my_files.read", "web.read", "a.b"]  # the last is left out
