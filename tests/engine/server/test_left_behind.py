"""Clients that vanish at the worst moment: their runs end within a step, and nothing is kept of them."""

from __future__ import annotations

import gc
import json
import socket
import sys
import threading
import weakref
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from engine.server import RunningServer, ServerOptions, running, runs
from engine.service import Capabilities, Scheduler
from engine.service.scheduler import MAX_REPLIES
from tests.engine.server.served import CANVAS, CHAT, KEY, ScriptedEngine, Served, serving, within

BODY = {"messages": [{"role": "user", "content": "hello"}], "stream": True}


@pytest.fixture
def outlets(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """References to the outlets of all runs."""
    made: list[weakref.ref[Any]] = []

    class Noted(runs.RunChannel):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(weakref.ref(self))

    monkeypatch.setattr(runs, "RunChannel", Noted)
    return made


def connect(served: Served, body: dict[str, Any] = BODY, *, buffer: int = 0) -> socket.socket:
    """A connection over which a chat is asked for."""
    place, data = urlsplit(served.server.url), json.dumps(body).encode()
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.connect((place.hostname, place.port))
    head = (
        f"POST {CHAT} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {KEY}",
        "Content-Type: application/json",
    )
    connection.sendall("\r\n".join((*head, f"Content-Length: {len(data)}", "", "")).encode() + data)
    return connection


def handles() -> int:
    """The number of files, sockets and the like that this process has open."""
    process = psutil.Process()
    return int(process.num_handles() if sys.platform == "win32" else process.num_fds())


def states(served: Served) -> list[str]:
    return [one.state for one in served.server.live.snapshot()]


def gone(outlet: weakref.ref[Any]) -> bool:
    """True if nothing has it; an exception's traceback may, in a circle."""
    if outlet() is not None:
        gc.collect()
    return outlet() is None


def test_a_client_that_vanishes_while_it_waits(outlets: list[weakref.ref[Any]]) -> None:
    engine = ScriptedEngine()
    engine.hold, engine.able = True, Capabilities(steps=True, parallel_runs=1)
    engine.says = "a" * 20 * CANVAS
    with serving(engine) as served, closing(connect(served, BODY | {"max_tokens": 20 * CANVAS})):
        assert within(lambda: states(served) == ["running"])
        second = connect(served)
        assert within(lambda: served.scheduler.waiting == 1)
        second.close()
        assert within(lambda: [one.cancel.is_set() for one in served.server.live.snapshot()] == [True, False])
        for _ in range(MAX_REPLIES):  # these runs have no passes: so many replies of one are taken at a time
            engine.gate.release()
        assert within(lambda: states(served) == ["running", "cancelled"])
        assert within(lambda: gone(outlets[1]))
        assert (served.scheduler.running, served.scheduler.waiting) == (1, 0)
        assert len(engine.seeds) == 1


@pytest.fixture
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the server's connections small: less need be sent until they are full."""
    usual = running._listen

    def listen(*args: Any) -> socket.socket:
        listener = usual(*args)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return listener

    monkeypatch.setattr(running, "_listen", listen)


@pytest.mark.usefixtures("_small_buffers")
def test_a_client_that_reads_nothing(outlets: list[weakref.ref[Any]]) -> None:
    engine = ScriptedEngine()
    engine.context, engine.says = 10**6, "a" * 10**5
    before = handles()
    with serving(engine, send_seconds=0.2) as served:
        assert served.chat(max_tokens=CANVAS).status_code == 200
        ours = handles()
        with closing(connect(served, BODY | {"max_tokens": 10**5, "diffusion_frames": True}, buffer=4096)):
            assert within(lambda: engine.steps_run > 2 * engine.steps)
            assert served.chat(max_tokens=CANVAS).status_code == 200  # others go on
            assert within(lambda: "running" not in states(served))
            assert sorted(states(served)) == ["cancelled", "finished", "finished"]
            assert within(lambda: served.scheduler.running == 0)
            assert engine.steps_run < 10**5 // CANVAS
            assert within(lambda: handles() == ours + 1), "the server's side is open"
            assert within(lambda: all(map(gone, outlets)))
    assert within(lambda: handles() <= before)


def test_a_stop_leaves_neither_streams_nor_the_port(outlets: list[weakref.ref[Any]]) -> None:
    engine = ScriptedEngine()
    engine.hold = True
    with serving(engine) as served:
        streams = [connect(served) for _ in range(6)]  # more than run at a time
        assert within(lambda: len(states(served)) == len(streams))
        stopping = threading.Thread(target=served.server.stop)
        stopping.start()
        assert within(lambda: all(one.cancel.is_set() for one in served.server.live.snapshot()))
        for _ in streams:
            engine.gate.release()
        stopping.join(20)
        assert not served.server.is_running
        with pytest.raises(httpx2.ConnectError):
            served.http.get("/health")
        for stream in streams:
            stream.settimeout(20)
            received = b""
            while part := stream.recv(100_000):
                received += part
            stream.close()
            assert b"The server is stopping." in received
        assert within(lambda: served.scheduler.running == served.scheduler.waiting == 0)
        assert "running" not in states(served)
        assert "waiting" not in states(served)
        assert within(lambda: all(map(gone, outlets)))
        again = Scheduler(ScriptedEngine())
        second = RunningServer(again, ServerOptions(port=urlsplit(served.server.url).port or 0))
        second.start()
        assert second.url == served.server.url
        second.stop()
        assert again.close()


def test_a_client_still_sending_reads_why_it_is_refused() -> None:
    with serving(ScriptedEngine(), image_body_bytes=2**20) as served:
        place = urlsplit(served.server.url)
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n"
        )
        for headers, status in (("", b"401"), (f"Authorization: Bearer {KEY}\r\n", b"413")):
            with closing(socket.create_connection((place.hostname, place.port), 20)) as connection:
                connection.sendall((head + headers + "\r\n").encode())
                for _ in range(8):
                    connection.sendall(bytes(500_000))
                assert connection.recv(100_000).startswith(b"HTTP/1.1 " + status)
