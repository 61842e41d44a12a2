"""Several runs of a remote model at once, through the scheduler: none waits for another's server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from engine.service import LoadRequest, ModelLoaded, RunEnded, RunRequest, Scheduler
from engine.service.remote import RemoteBackend
from tests.engine.hub.rude_server import Request
from tests.engine.service.remote.servers import SHORT, SSE, Ran, chunk, events, models, question, serving, words


class Inbox:
    """The replies that a client gets, and whether it has room."""

    def __init__(self) -> None:
        self.ran, self.is_full = Ran(), False
        self.is_loaded, self.has_text, self.is_over = threading.Event(), threading.Event(), threading.Event()

    def put(self, reply: Any) -> None:
        self.ran.replies.append(reply)
        if isinstance(reply, ModelLoaded):
            self.is_loaded.set()
        if self.ran.text:
            self.has_text.set()
        if isinstance(reply, RunEnded):
            self.is_over.set()


class Gates:
    """A server that begins each answer, and ends it once the gate of its prompt is open."""

    def __init__(self) -> None:
        self.open = {name: threading.Event() for name in "abcdef"}
        self.asked: list[str] = []

    def answer(self, request: Request) -> None:
        name = json.loads(request.body)["messages"][-1]["content"]
        self.asked.append(name)
        request.send("\r\n".join(("HTTP/1.1 200 OK", *SSE, "Connection: close", "", "")).encode())
        request.send(events(chunk({"content": f"{name} begins"}), end=b""))
        while not self.open[name].wait(0.01):
            if request.wait(0.0):
                return
        request.send(events(*words([", and ends"])))


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
def scheduler(gates: Gates) -> Iterator[Scheduler]:
    with serving(v1_models=models("m"), v1_chat_completions=gates.answer) as server:
        scheduler, inbox = Scheduler(RemoteBackend(patience=SHORT)), Inbox()
        scheduler.load(LoadRequest(f"{server.endpoint}#m", "M"), inbox)
        assert inbox.is_loaded.wait(10.0)
        yield scheduler
        assert scheduler.close()


def begin(scheduler: Scheduler, name: str) -> tuple[RunRequest, Inbox]:
    request, inbox = question(name), Inbox()
    scheduler.run(request, inbox)
    return request, inbox


def test_four_go_on_together_and_the_fifth_waits(scheduler: Scheduler, gates: Gates) -> None:
    runs = {name: begin(scheduler, name) for name in "abcde"}
    assert all(runs[name][1].has_text.wait(10.0) for name in "abcd")
    assert (scheduler.running, scheduler.waiting) == (4, 1)
    assert sorted(gates.asked) == ["a", "b", "c", "d"]
    gates.open["c"].set()
    assert runs["c"][1].is_over.wait(10.0)
    assert runs["c"][1].ran.text == "c begins, and ends"
    assert runs["e"][1].has_text.wait(10.0)
    assert not any(runs[name][1].is_over.is_set() for name in "abde")
    runs["a"][0].cancel.set()
    assert runs["a"][1].is_over.wait(10.0)
    assert (runs["a"][1].ran.text, runs["a"][1].ran.finished.reason) == ("a begins", "cancelled")
    for name in "bde":
        gates.open[name].set()
        assert runs[name][1].is_over.wait(10.0)
        assert runs[name][1].ran.text == f"{name} begins, and ends"
