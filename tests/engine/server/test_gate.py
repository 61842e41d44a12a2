"""Who is let in, and what is read of whoever asks: over raw connections, as a hostile client would."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from urllib.parse import urlsplit

import pytest

from engine.errors import SafelightError
from engine.server import RunningServer, ServerOptions, bodies
from tests.engine.server.served import CHAT, KEY, ScriptedEngine, Served, refused, serving

PAGE = "https://chat.example"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    options = {"origins": (PAGE,), "hosts": ("mybox.lan",), "most_connections": 8}
    options |= {"body_bytes": 2_000, "image_body_bytes": 4_000, "most_large_bodies": 1}
    times = {"header_seconds": 0.2, "body_seconds": 0.2}
    with serving(ScriptedEngine(), **options, **times) as served:
        yield served


def connect(served: Served) -> socket.socket:
    place = urlsplit(served.server.url)
    connection = socket.create_connection((place.hostname, place.port), timeout=20)
    connection.settimeout(20)
    return connection


def raw(served: Served, data: bytes) -> tuple[int, bytes]:
    """Send bytes, and read until the server hangs up."""
    with closing(connect(served)) as connection:
        connection.sendall(data)
        found = b""
        while part := connection.recv(65_536):
            found += part
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def head(**fields: str | None) -> bytes:
    """The head of a chat, with headers changed, added, or left out where None."""
    usual = {
        "Host": "localhost",
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "Connection": "close",
    }
    lines = [f"{name}: {value}" for name, value in {**usual, **fields}.items() if value is not None]
    return f"POST {CHAT} HTTP/1.1\r\n".encode() + "\r\n".join([*lines, "", ""]).encode()


def test_without_the_key_nothing_is_said(served: Served) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"X-Api-Key": KEY + "x"}):
        for path in ("/v1/models", "/nothing", "/v1/models/x"):
            response = served.http.get(path, headers={"Authorization": "", **headers})
            assert refused(response)[0] == 401
            assert "scripted" not in response.text
    assert served.http.get("/v1/models", headers={"Authorization": "", "X-Api-Key": KEY}).status_code == 200
    assert served.http.get("/health", headers={"Authorization": ""}).json() == {"status": "ok"}


def test_a_name_that_leads_here_is_not_enough(served: Served) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost:80@evil", ""):
        assert refused(served.http.get("/v1/models", headers={"Host": host}))[0] == 403
    for host in ("localhost:9", "127.0.0.1", "[::1]:80", "MyBox.lan"):
        assert served.http.get("/v1/models", headers={"Host": host}).status_code == 200
    assert raw(served, b"GET /v1/models HTTP/1.0\r\n\r\n")[0] == 403
    two = b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert raw(served, two)[0] in (400, 403)


def test_pages_of_other_origins_are_refused_unless_listed(served: Served) -> None:
    for origin in ("https://evil.example", "null", PAGE + ".evil"):
        response = served.http.get("/health", headers={"Origin": origin})
        assert refused(response)[0] == 403
        assert "access-control-allow-origin" not in response.headers
    assert served.http.get("/health", headers={"Origin": served.server.url}).status_code == 200
    response = served.http.get("/v1/models", headers={"Origin": PAGE})
    assert response.headers["access-control-allow-origin"] == PAGE
    assert "origin" in response.headers["vary"].lower()
    wrong = served.http.get("/v1/models", headers={"Origin": PAGE, "Authorization": ""})
    assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (401, PAGE)


def test_a_listed_page_may_ask_before_it_asks(served: Served) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    response = served.http.options(CHAT, headers={"Origin": PAGE, "Authorization": "", **asked})
    assert response.status_code == 204
    assert "authorization" in response.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in response.headers
    assert served.http.options(CHAT, headers={"Origin": "https://evil.example", **asked}).status_code == 403
    assert served.http.options(CHAT, headers={"Authorization": "", **asked}).status_code == 401


def test_what_is_no_chat_is_refused_by_its_kind(served: Served) -> None:
    body = b'{"messages": [{"role": "user", "content": "Hi"}]}'
    length = {"Content-Length": str(len(body))}
    assert raw(served, head(**length) + body)[0] == 200
    assert raw(served, head(**{"Content-Type": "text/plain"}, **length) + body)[0] == 415
    assert raw(served, head(**{"Content-Encoding": "gzip"}, **length) + body)[0] == 415
    assert raw(served, head())[0] == 411
    assert raw(served, head(**{"Content-Length": "5000"}))[0] == 413
    assert raw(served, head(**{"Content-Length": "9" * 500}))[0] in (400, 413)
    chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
    assert raw(served, head(**{"Transfer-Encoding": "chunked"}) + chunk)[0] == 413


def test_of_large_bodies_a_few_are_held_at_a_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SLOWEST", 500)  # the first is waited for longer than others wait for its room
    body = b'{"messages": [{"role": "user", "content": "Hi"}]}'.ljust(3_000)
    whole = head(**{"Content-Length": "3000"}) + body
    assert raw(served, whole)[0] == 200
    with closing(connect(served)) as first:
        first.sendall(whole[:-1])
        status, said = raw(served, head(**{"Content-Length": "2999"}) + body[:-1])
        assert status == 429
        assert b"large requests" in said
        assert raw(served, head(**{"Transfer-Encoding": "chunked"}))[0] == 429  # it may become large
        assert raw(served, head(**{"Content-Length": "49"}) + body[:49])[0] == 200
    assert raw(served, whole)[0] == 200
    completions = whole.replace(CHAT.encode(), b"/v1/completions")
    status, said = raw(served, completions)
    assert (status, b"more than 2,000 bytes" in said, b"images" in said) == (413, True, False)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"nul", b"\xff\xfe", b'{"seed": NaN}', b'{"a": "\\ud800"}', b"[" * 3_000, b'{"a": 1e999}'],
)
def test_what_is_no_json_is_an_error_object(served: Served, body: bytes) -> None:
    status, answer = raw(served, head(**{"Content-Length": str(len(body))}) + body)
    assert status == 400
    assert set(json.loads(answer)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00" * 9, b"BREW / TEA\r\n\r\n", b"a" * 70_000, b"\r\n" * 40_000])
def test_what_is_no_http_is_refused(served: Served, data: bytes) -> None:
    try:
        status, answer = raw(served, data)
    except ConnectionError:
        return  # it hung up before everything was sent
    assert status in (400, 408)
    assert json.loads(answer)["error"]["message"]


def test_slow_clients_are_not_waited_for(served: Served) -> None:
    assert raw(served, b"")[0] == 408
    assert raw(served, b"GET /health HTTP/1.1\r\nHost: loc")[0] == 408
    assert raw(served, head(**{"Content-Length": "100"}) + b"{")[0] == 408


def asks(connection: socket.socket, path: str = "/v1/models", key: str = KEY) -> int:
    """The status of a request on a connection that stays open."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {key}\r\n\r\n".encode())
    with closing(HTTPResponse(connection, method="GET")) as response:
        response.begin()
        response.read()
        return response.status


def test_silent_connections_without_the_key_make_room_for_others() -> None:
    with ExitStack() as open_ones, serving(ScriptedEngine(), most_connections=6, header_seconds=60.0) as served:
        friend = open_ones.enter_context(closing(connect(served)))
        assert asks(friend) == 200
        silent = [open_ones.enter_context(closing(connect(served))) for _ in range(20)]
        for one in silent[:14]:
            assert one.recv(1_000).startswith(b"HTTP/1.1 503")  # the first ones went first
        stranger = open_ones.enter_context(closing(connect(served)))
        assert asks(stranger, "/health", "") == 200
        assert asks(stranger, key="wrong") == 401
        assert asks(friend) == 200
        assert asks(open_ones.enter_context(closing(connect(served)))) == 200


def test_a_body_has_one_length(served: Served) -> None:
    for more in ({}, {"Authorization": "Bearer wrong"}):
        both = head(**{"Content-Length": "5", "Transfer-Encoding": "chunked"}, **more)
        status, said = raw(served, both + b"0\r\n\r\n")
        assert status == 400
        assert b"not both" in said


def test_unknown_paths_and_methods_are_error_objects(served: Served) -> None:
    assert refused(served.http.get("/v1/unknown"))[0] == 404
    assert refused(served.http.get(CHAT))[0] == 405
    assert refused(served.http.post("/v1/embeddings", json={"input": "x"}))[0] == 501


def test_what_browsers_must_not_do_is_said(served: Served) -> None:
    headers = served.http.get("/v1/models").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_a_taken_port_is_one_clear_line(served: Served) -> None:
    port = urlsplit(served.server.url).port
    with pytest.raises(SafelightError, match=rf"port {port} is used"):
        RunningServer(served.scheduler, ServerOptions(port=port)).start()
    with pytest.raises(SafelightError, match="not an address of this machine"):
        RunningServer(served.scheduler, ServerOptions(host="no such host")).start()
    with pytest.raises(SafelightError, match="cannot be used"):
        RunningServer(served.scheduler, ServerOptions(host="192.0.2.1")).start()


@pytest.mark.parametrize("options", [{"port": 70_000}, {"api_key": ""}, {"api_key": "a b"}, {"origins": ("evil",)}])
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(SafelightError):
        ServerOptions(**options)  # type: ignore[arg-type]
