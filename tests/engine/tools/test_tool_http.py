"""Tool servers at an address that send more than they may, and what real ones send."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from engine.tools.declared import ToolServer
from engine.tools.host import ToolHost
from tests.engine.tools.test_tool_host import reached

EVENTS = "text/event-stream"
ENDLESS = 96 * 2**20  # bytes; more than any buffer in between
Answer = Callable[["Request", dict[str, Any]], None]


class Request(BaseHTTPRequestHandler):
    """A request to a server that lists one tool and answers its calls by ``answer``."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_given: object) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in asked:
            self.send(202)
        elif asked["method"] == "initialize":
            found = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            self.reply(asked, found | {"serverInfo": {"name": "odd", "version": "1"}})
        elif asked["method"] == "tools/list":
            self.reply(asked, {"tools": [{"name": "one", "inputSchema": {"type": "object"}}]})
        elif asked["method"] == "tools/call":
            self.server.answer(self, asked)
        else:
            self.send(404)

    def do_GET(self) -> None:
        self.send(405)

    def do_DELETE(self) -> None:
        self.send(405)

    def reply(self, asked: dict[str, Any], result: dict[str, Any], kind: str = "application/json") -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        self.send(200, f"data: {body}\n\n" if kind == EVENTS else body, kind)

    def send(self, status: int, body: str = "", kind: str = "application/json", length: int = 0, **more: str) -> None:
        data = body.encode()
        self.send_response(status)
        headers = {"content-type": kind, "content-length": str(length or len(data)), "mcp-session-id": "1", **more}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def flood(self, status: int, piece: str, kind: str = EVENTS, **more: str) -> None:
        """Sends a piece again and again, and notes how much the other side took."""
        try:
            self.send(status, "", kind, ENDLESS, **more)
            while self.server.sent < ENDLESS:
                self.wfile.write(piece.encode())
                self.server.sent += len(piece)
        except OSError:
            self.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = True
    answer: Answer
    sent = 0  # bytes of a flood

    def handle_error(self, *_given: object) -> None:
        """Says nothing of connections that the other side has closed."""


Open = Callable[..., tuple[Server, ToolHost]]


@pytest.fixture
def open_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    opened = list[tuple[Server, ToolHost]]()

    def open_one(answer: Answer, kind: type[Request] = Request, name: str = "") -> tuple[Server, ToolHost]:
        server = Server(("127.0.0.1", 0), kind)
        server.answer = answer
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host = ToolHost()
        place = f"127.0.0.1:{server.server_port}"
        if name:
            monkeypatch.setenv("HTTP_PROXY", f"http://{place}")
        host.declare((ToolServer("odd", url=f"http://{name or place}/mcp"),))
        opened.append((server, host))
        return server, host

    yield open_one
    for server, host in opened:
        host.close()
        server.shutdown()
        server.server_close()


LINES, ONE_LINE = ("data: " + "x" * 57 + "\n") * 2**10, "x" * 2**16


@pytest.mark.parametrize(
    ("status", "more", "piece"),
    [(200, {}, LINES), (307, {"location": "/other"}, LINES), *((status, {}, ONE_LINE) for status in (401, 500, 200))],
)
def test_an_endless_answer_ends(open_server: Open, status: int, more: dict[str, str], piece: str) -> None:
    server, host = open_server(lambda request, _asked: request.flood(status, piece, **more))
    reached(host)
    assert host.call(host.tools[0], {}).result(20).is_error
    assert server.sent < ENDLESS / 2


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ((), "asks for a key (401); add it as a header under Edit"),
        ((("authorization", "Bearer old"),), "refuses the key in its headers (401); change it under Edit"),
    ],
)
def test_a_key_that_is_missing_or_refused_is_said(
    open_server: Open, headers: tuple[tuple[str, str], ...], said: str
) -> None:
    class Closed(Request):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send(401, json.dumps({"error": "invalid_token", "id": asked.get("id")}))

    server, host = open_server(lambda *_: None, Closed)
    host.declare((ToolServer("closed", url=f"http://127.0.0.1:{server.server_port}/mcp", headers=headers),))
    assert reached(host, "failed").problem == said


def test_a_packed_answer_is_not_unpacked(open_server: Open) -> None:
    asked = list[str]()

    class Packed(Request):
        def do_POST(self) -> None:
            asked.append(self.headers["accept-encoding"])
            self.send(200, "{}", **{"content-encoding": "gzip"})

    _, host = open_server(lambda *_: None, Packed)
    assert "it sent a packed answer" in reached(host, "failed").problem
    assert set(asked) == {"identity"}


SCREEN = {"type": "image", "mimeType": "image/png", "data": "iVBO" * 1_200_000}
TABLE = {"type": "text", "text": '1,2,[3],{4},"5"\n' * 10_000}


@pytest.mark.parametrize("kind", ["application/json", EVENTS])
def test_what_real_servers_send_arrives(open_server: Open, kind: str) -> None:
    _, host = open_server(lambda request, asked: request.reply(asked, {"content": [SCREEN, TABLE]}, kind))
    reached(host)
    result = host.call(host.tools[0], {}).result(20)
    assert not result.is_error
    assert result.text.startswith('[image, image/png, 3,600,000 bytes]\n1,2,[3],{4},"5"\n1,2')


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return monkeypatch


@pytest.mark.usefixtures("no_proxies")
def test_a_server_elsewhere_is_reached_through_a_proxy(open_server: Open) -> None:
    asked = list[str]()

    class Noting(Request):
        def do_POST(self) -> None:
            asked.append(self.path)
            super().do_POST()

    _, host = open_server(lambda request, asked: request.reply(asked, {"content": []}), Noting, "tools.invalid")
    reached(host)
    assert not host.call(host.tools[0], {}).result(20).is_error
    assert set(asked) == {"http://tools.invalid/mcp"}


def test_a_server_on_this_machine_is_reached_without_one(open_server: Open, no_proxies: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        no_proxies.setenv(name, "socks://127.0.0.1:9")
    _, host = open_server(lambda *_: None)
    reached(host)


@pytest.mark.parametrize("proxy", ["socks://localhost:1", "::::"])
def test_a_proxy_that_cannot_be_used_is_named(no_proxies: pytest.MonkeyPatch, proxy: str) -> None:
    no_proxies.setenv("ALL_PROXY", proxy)
    host = ToolHost()
    try:
        host.declare((ToolServer("far", url="https://tools.invalid/mcp"),))
        said = "cannot be reached: the proxy of ALL_PROXY cannot be used; give one that begins with http://"
        assert reached(host, "failed").problem == said
    finally:
        host.close()


RED = "\x1b[31mred\x07"
NO_PROTOCOL = "sent an answer that does not follow the protocol"


def failing(request: Request, asked: dict[str, Any]) -> None:
    error = {"code": -32603, "message": f"no {RED}"}
    request.send(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (failing, "answered: no [31mred"),
        (lambda request, _asked: request.send(200, f"data: {{nope {RED}\n\n", EVENTS), NO_PROTOCOL),
        (lambda request, _asked: request.send(200, f'{{"jsonrpc": "{RED}"}}'), NO_PROTOCOL),
        (lambda request, asked: request.reply(asked, {"content": RED}), NO_PROTOCOL),
        (lambda request, _asked: request.send(200, "", "text/\x1b[31mred"), "answered: Unexpected content type: text/"),
        (lambda request, _asked: request.send(200, f"event: {RED}\ndata: x\n\n", EVENTS), "does not answer any more"),
    ],
)
def test_what_a_server_sends_is_not_written_to_the_terminal(
    open_server: Open,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: Answer,
    said: str,
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # those of the tests
    _, host = open_server(answer)
    reached(host)
    text = host.call(host.tools[0], {}).result(20).text
    assert text.startswith(said)
    assert text.isprintable()
    assert capsys.readouterr() == ("", "")
