"""Runs that are slow, given up, or wait for each other; a server that is stopped in the middle of them."""

from __future__ import annotations

import gc
import io
import json
import logging
import socket
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from engine import SafelightError
from engine.server import LiveRequest, RunningServer, ServerOptions, running, runs
from engine.service import Capabilities, LoadRequest, ModelLoaded, ModelUnloaded, Scheduler
from engine.service.scheduler import MAX_REPLIES
from tests.engine.server.served import CANVAS, CHAT, KEY, Arrivals, ScriptedEngine, Served, refused, serving, within

BODY = {"messages": [{"role": "user", "content": "secret words"}], "stream": True}


@pytest.fixture
def engine() -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.hold = True
    return engine


@pytest.fixture
def served(engine: ScriptedEngine) -> Iterator[Served]:
    with serving(engine, most_waiting=1, comment_seconds=0.02) as served:
        yield served


def newest(served: Served) -> LiveRequest:
    return served.server.live.snapshot()[0]


def state(served: Served) -> str:
    found = served.server.live.snapshot()
    return found[0].state if found else ""


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_a_stream_shows_that_it_is_alive_and_what_it_is(served: Served) -> None:
    changes: list[str] = []
    end = served.server.live.subscribe(lambda: changes.append(state(served)))
    with served.http.stream("POST", CHAT, json=BODY) as response:
        lines = response.iter_lines()
        assert '"role":"assistant"' in next(lines)
        assert any(line == ": developing" for line in lines)
        assert within(lambda: state(served) == "running")  # a line may come before, where all else is slow
        live = newest(served)
        assert (live.endpoint, live.model, live.prompt_tokens) == (CHAT, "scripted", len("secret words"))
        assert live.trace is not None
        for _ in range(served.engine.steps):
            served.engine.gate.release()
        assert list(lines)[-2:] == ["data: [DONE]", ""]
    assert within(lambda: state(served) == "finished")
    assert newest(served).tokens == len(served.engine.says)
    end()
    assert {"waiting", "running", "finished"} <= {*changes, "waiting"}


def test_a_request_can_be_cancelled_from_here(served: Served, pool: ThreadPoolExecutor) -> None:
    asked = pool.submit(served.chat)
    assert within(lambda: state(served) == "running")
    newest(served).stop()
    served.engine.gate.release()
    answer = asked.result(20)
    assert refused(answer)[0] == 503
    assert answer.headers["x-should-retry"] == "false"
    assert state(served) == "cancelled"


def test_more_than_may_wait_are_sent_away(served: Served, pool: ThreadPoolExecutor) -> None:
    served.engine.able = served.engine.able.__class__(steps=True, parallel_runs=1)
    first = pool.submit(served.chat)
    assert within(lambda: served.scheduler.running == 1)
    second = pool.submit(served.chat)
    assert within(lambda: served.scheduler.waiting == 1)
    third = served.chat()
    assert refused(third)[0] == 429
    assert int(third.headers["retry-after"]) > 0
    for _ in range(2 * served.engine.steps):
        served.engine.gate.release()
    assert [asked.result(20).status_code for asked in (first, second)] == [200, 200]


def test_a_model_that_goes_midway_is_said_to_be_gone(served: Served, pool: ThreadPoolExecutor) -> None:
    asked = pool.submit(served.chat)
    assert within(lambda: state(served) == "running")
    arrivals = Arrivals()
    served.scheduler.unload(arrivals)
    served.engine.gate.release()
    arrivals.wait_for(ModelUnloaded)
    assert refused(asked.result(20))[0] == 503
    assert refused(served.http.get("/health"))[2].startswith("No model is loaded")
    assert served.http.get("/v1/models").json()["data"] == []
    assert refused(served.chat())[0] == 503
    served.engine.hold = False
    served.scheduler.load(LoadRequest("scripted", "scripted"), arrivals)
    arrivals.wait_for(ModelLoaded)
    assert served.chat().status_code == 200


def test_an_answer_may_take_so_long(engine: ScriptedEngine, pool: ThreadPoolExecutor) -> None:
    with serving(engine, request_seconds=0.05) as served:
        asked = pool.submit(served.chat)
        assert within(lambda: bool(served.server.live.snapshot()) and newest(served).cancel.is_set())
        served.engine.gate.release()
        answer = asked.result(20)
        assert refused(answer)[0] == 503
        assert answer.json()["error"]["code"] == "timeout"
        assert state(served) == "failed"


def test_a_server_that_was_stopped_does_not_start(engine: ScriptedEngine) -> None:
    scheduler = Scheduler(engine)
    server = RunningServer(scheduler, ServerOptions())
    server.stop()
    with pytest.raises(SafelightError, match="has been stopped"):
        server.start()
    assert not server.is_running
    assert scheduler.close()


def test_while_a_model_loads_the_server_says_so(engine: ScriptedEngine) -> None:
    gate, usual = threading.Event(), engine.load_model

    def load_slowly(*args: Any) -> Any:
        assert gate.wait(20)
        return usual(*args)

    engine.load_model = load_slowly  # type: ignore[method-assign]
    with serving(engine, model="") as served:
        assert refused(served.http.get("/health"))[0] == 503
        arrivals = Arrivals()
        served.scheduler.load(LoadRequest("scripted", "scripted"), arrivals)
        assert within(lambda: served.scheduler.loading is not None)
        for response in (served.http.get("/health"), served.chat()):
            assert response.status_code == 503
            error = response.json()["error"]
            assert (error["code"], error["message"]) == ("loading", "Loading model")
        gate.set()
        arrivals.wait_for(ModelLoaded)
        assert served.http.get("/health").json() == {"status": "ok"}


def test_nothing_of_a_prompt_is_written_down(
    served: Served, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("secret words")

    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger("safelight.server"), "handlers", [logging.StreamHandler(log)])
    served.engine.hold = False
    served.engine.failure, served.engine.fail_at = ValueError("secret words"), 0
    served.http.post(CHAT, json=BODY)
    monkeypatch.setattr("engine.server.chat.read_messages", fail)
    assert refused(served.http.post(CHAT, json=BODY))[::2] == (500, "Something went wrong in the server (ValueError).")
    served.http.get("/secret%20words")
    served.http.post(CHAT, json={"secret words": 1})
    assert "secret" not in "".join(capfd.readouterr()) + log.getvalue()
    assert "a request failed: ValueError in test_running.py" in log.getvalue()


# --- clients that vanish at the worst moment: nothing is kept of them ----------------------------------------------


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
