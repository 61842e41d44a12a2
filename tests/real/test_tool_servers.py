"""Tool servers that others published, started by the commands that people have in their files."""

from __future__ import annotations

import http.server
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.tools import connection
from engine.tools.declared import read_servers
from engine.tools.host import ToolHost
from engine.tools.tool import Tool, ToolResult

pytestmark = pytest.mark.real
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
    declared = {"mcpServers": {"it": {"command": command, "args": list(args), "env": env}}}
    host.declare(read_servers(declared)[0])
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


def test_the_fetch_server_reads_a_page(host: ToolHost) -> None:
    page = b"<html><body><main><h1>Tides</h1><p>High water is at noon, and low water at six.</p></main></body></html>"

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            tools = started(host, "uvx", "mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips")
            address = f"http://127.0.0.1:{server.server_address[1]}/"
            found = call(host, tools["fetch"], url=address)
            assert "High water is at noon" in found.text
            assert call(host, tools["fetch"], url="http://127.0.0.1:9/").is_error
        finally:
            server.shutdown()
            thread.join()


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
