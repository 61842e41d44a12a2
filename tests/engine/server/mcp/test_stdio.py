"""The tools over two pipes: lines in, lines out, and an end for each of the two sides."""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from engine.server import ServerOptions
from engine.server.mcp.stdio import StdioServer
from engine.service import LoadRequest, ModelLoaded, Scheduler
from tests.engine.server.served import Arrivals, ScriptedEngine, within

START = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="waits for pipes as POSIX has it")


class Piped:
    """The other end of a server's streams."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        source, self._to = os.pipe()
        self._from, sink = os.pipe()
        self._descriptors, self._sink = [source, self._from], open(sink, "w")  # noqa: SIM115
        self._rest = b""
        self.ended = threading.Event()
        self.scheduler = Scheduler(engine)
        self.server = StdioServer(self.scheduler, ServerOptions(), self.ended.set, source, self._sink)
        self.server.start()

    def load(self) -> None:
        arrivals = Arrivals()
        self.scheduler.load(LoadRequest("scripted", "scripted"), arrivals)
        arrivals.wait_for(ModelLoaded)
        self.server.expect_no_more()

    def write(self, data: bytes) -> None:
        os.write(self._to, data)

    def send(self, method: str, id: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps(message if id is None else {**message, "id": id}).encode() + b"\n")

    def receive(self) -> Any:
        """Returns the next message."""
        while b"\n" not in self._rest:
            assert select.select([self._from], [], [], 20)[0]
            self._rest += os.read(self._from, 65_536)
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def initialize(self) -> None:
        self.send("initialize", 0, **START)
        assert self.receive()["result"]["serverInfo"]["name"] == "safelight"
        self.send("notifications/initialized")

    def generate(self, id: int) -> None:
        self.send("tools/call", id, name="generate", arguments={"prompt": "Hi"})

    def hang_up(self) -> None:
        if self._to >= 0:
            os.close(self._to)
            self._to = -1

    def close(self) -> None:
        self.engine.hold = False
        for _ in range(20):
            self.engine.gate.release()
        self.server.stop()
        assert not self.server._thread.is_alive()
        assert self.scheduler.close()
        self.hang_up()
        with suppress(BrokenPipeError):
            self._sink.close()
        for descriptor in self._descriptors:
            os.close(descriptor)


@contextmanager
def piped(*, hold: bool = False) -> Iterator[Piped]:
    engine = ScriptedEngine()
    engine.hold = hold
    made = Piped(engine)
    try:
        yield made
    finally:
        made.close()


def test_tools_are_listed_before_the_model_is_loaded_and_calls_wait_for_it() -> None:
    with piped() as other:
        other.initialize()
        other.generate(1)
        other.send("tools/list", 2)
        listed = other.receive()
        assert listed["id"] == 2
        assert len(listed["result"]["tools"]) == 5
        other.load()
        answered = other.receive()
        assert answered["id"] == 1
        assert answered["result"]["content"][0]["text"] == "Hello there."


def test_a_model_that_could_not_be_loaded_is_the_answer_to_each_call() -> None:
    with piped() as other:
        other.initialize()
        other.server.expect_no_more("there is no model at nowhere")
        other.generate(1)
        result = other.receive()["result"]
        assert result["isError"]
        assert result["content"][0]["text"] == "No model is loaded: there is no model at nowhere."


def test_the_end_of_input_ends_a_run_and_the_server() -> None:
    with piped(hold=True) as other:
        other.initialize()
        other.load()
        other.generate(1)
        assert within(lambda: other.scheduler.running > 0)
        other.hang_up()
        assert other.ended.wait(20)
        other.engine.gate.release()
        assert within(lambda: other.scheduler.running == 0)
        assert other.engine.steps_run <= 1


def test_a_stop_ends_a_read_that_waits() -> None:
    with piped() as other:
        other.initialize()
        other.server.stop()
        assert not other.server._thread.is_alive()
        assert other.ended.is_set()


def test_a_client_that_reads_no_more_ends_the_server_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    with piped() as other:
        other.initialize()
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), other._from)  # closes the end that it read from
        other.send("tools/list", 1)
        assert other.ended.wait(20)
    assert capfd.readouterr() == ("", "")
