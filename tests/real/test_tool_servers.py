"""Tool servers that others published, started by the commands that people have in their files."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.tools import connection
from engine.tools.declared import read_servers
from engine.tools.host import ToolHost
from engine.tools.tool import Tool, ToolResult
from tests.real.authors import repository

pytestmark = pytest.mark.real
SDK = "modelcontextprotocol/python-sdk"
START_SECONDS = 240.0  # the first start downloads a server


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolHost]:
    monkeypatch.setattr(connection, "START_SECONDS", START_SECONDS)
    made = ToolHost()
    yield made
    made.close()


def started(host: ToolHost, command: str, *args: str, **env: str) -> dict[str, Tool]:
    """Starts a server; skips the test where its starter is missing."""
    if shutil.which(command) is None:
        pytest.skip(f"{command} is not installed")
    env |= {name: value for name, value in os.environ.items() if name.startswith("UV_")}  # where packages come from
    return reached(host, {"command": command, "args": list(args), "env": env})


def reached(host: ToolHost, entry: dict[str, object]) -> dict[str, Tool]:
    """Declares a server, and waits for its tools."""
    host.declare(read_servers({"mcpServers": {"it": entry}})[0])
    deadline = time.monotonic() + START_SECONDS
    while (state := host.states[0]).status not in ("ready", "failed"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert state.status == "ready", (state.problem, state.log)
    return {tool.name: tool for tool in host.tools}


def call(host: ToolHost, tool: Tool, **arguments: object) -> ToolResult:
    return host.call(tool, arguments).result(60)


def test_the_time_server_converts_a_time(host: ToolHost) -> None:
    tools = started(host, "uvx", "mcp-server-time", "--local-timezone", "Europe/Berlin")
    assert set(tools) == {"get_current_time", "convert_time"}
    asked = {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "UTC"}
    found = call(host, tools["convert_time"], **asked)
    assert not found.is_error
    assert "00:30" in found.text
    wrong = call(host, tools["get_current_time"], timezone="Nowhere/Land")
    assert wrong.is_error


def test_the_file_server_stays_in_its_folder(host: ToolHost, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("buy milk", encoding="utf-8")
    tools = started(host, "npx", "-y", "@modelcontextprotocol/server-filesystem", str(tmp_path))
    assert tools["read_text_file"].is_read_only
    assert not tools["write_file"].is_read_only
    assert call(host, tools["read_text_file"], path=str(tmp_path / "note.txt")).text == "buy milk"
    assert call(host, tools["read_text_file"], path="/etc/passwd").is_error
    call(host, tools["write_file"], path=str(tmp_path / "new.txt"), content="eggs")
    assert (tmp_path / "new.txt").read_text(encoding="utf-8") == "eggs"


def test_the_everything_server_is_used(host: ToolHost) -> None:
    tools = started(host, "npx", "-y", "@modelcontextprotocol/server-everything")
    assert call(host, tools["echo"], message="hello").text == "Echo: hello"
    assert "42" in call(host, tools["get-sum"], a=2, b=40).text
    picture = call(host, tools["get-tiny-image"]).text
    assert "[image, image/png, " in picture
    slow = host.call(tools["trigger-long-running-operation"], {"duration": 60, "steps": 3}, seconds=1)
    assert slow.result(20).text == "the tool gave no answer within 1 seconds"


@pytest.mark.parametrize(
    ("module", "tool", "arguments", "said"),
    [
        ("echo", "echo_tool", {"text": "<b>hello</b>"}, "<b>hello</b>"),
        ("unicode_example", "hello_unicode", {"name": "Ana"}, "¡Hola, Ana!"),
        ("complex_inputs", "name_shrimp", {"tank": {"shrimp": [{"name": "bo"}]}, "extra_names": ["mi"]}, "bo\nmi"),
        ("weather_structured", "get_temperature", {"city": "Oslo", "unit": "celsius"}, "22.5"),
    ],
)
def test_the_sdk_s_examples_are_called(
    host: ToolHost, module: str, tool: str, arguments: dict[str, object], said: str
) -> None:
    folder = repository(SDK) / "examples" / "mcpserver"
    run = f"from {module} import mcp; mcp.run()"
    tools = started(host, sys.executable, "-c", run, PYTHONPATH=str(folder))
    assert call(host, tools[tool], **arguments).text.startswith(said)


def test_the_sdk_s_everything_server_by_http(host: ToolHost) -> None:
    folder = repository(SDK) / "examples" / "servers" / "everything-server"
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    command = [sys.executable, "-m", "mcp_everything_server", "--port", str(port)]
    with subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": str(folder)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            deadline = time.monotonic() + 60
            while True:
                with socket.socket() as asking:
                    if asking.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert time.monotonic() < deadline
                time.sleep(0.1)
            tools = reached(host, {"url": f"http://127.0.0.1:{port}/mcp"})
            assert call(host, tools["test_simple_text"]).text == "This is a simple text response for testing."
            several = call(host, tools["test_multiple_content_types"]).text
            assert "[image, image/png, " in several
            assert call(host, tools["test_error_handling"]).text == "Error executing tool test_error_handling"
            assert not call(host, tools["test_tool_with_progress"]).is_error
            assert call(host, tools["test_sampling"], prompt="x").text  # which this client does not offer
            assert call(host, tools["test_elicitation"], message="x").text
        finally:
            server.terminate()
