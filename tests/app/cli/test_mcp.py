"""``safelight mcp`` as a program starts it: by the protocol's own client, and with nobody at the other end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from app.cli import greeting, mcp
from app.cli.main import main
from app.cli.stopping import STOPPED
from engine import SafelightError
from engine.server import ServerOptions
from engine.server.mcp.stdio import StdioServer
from engine.service import Scheduler
from tests.fake_engine import FakeEngine

ROOT = Path(__file__).resolve().parents[3]
COMMAND = ["-m", "app", "mcp"]


def test_a_program_starts_it_lists_its_tools_and_uses_them(tmp_path: Path) -> None:
    async def ask(errors: Any) -> Any:
        here = os.environ | {"PYTHONPATH": str(ROOT)}
        started = StdioServerParameters(command=sys.executable, args=COMMAND, env=here, cwd=ROOT)
        async with Client(stdio_client(started, errlog=errors)) as client:
            assert len((await client.list_tools()).tools) == 5
            return await client.call_tool("generate", {"prompt": "Reverse the word robot.", "seed": 1})

    said = tmp_path / "errors"
    with said.open("w") as errors:
        found = asyncio.run(ask(errors))
    assert found.content[0].text == "tobor"
    assert said.read_text() == "safelight: safelight-skills is ready for tools\n"


@pytest.fixture
def pipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The other ends of its standard streams, in this process: what it reads from, and what it writes to."""
    (source, theirs), (ours, sink) = os.pipe(), os.pipe()

    @contextmanager
    def own_streams() -> Iterator[tuple[int, int]]:
        yield source, sink

    monkeypatch.setattr("engine.server.mcp.stdio.own_streams", own_streams)
    yield theirs, ours
    for descriptor in (source, ours, sink):
        os.close(descriptor)


def running_until(monkeypatch: pytest.MonkeyPatch, end: Callable[[], object]) -> int:
    """Runs the command, and ends it as soon as its model is loaded; returns its exit code."""
    usual = mcp._load

    def load(*args: Any) -> None:
        usual(*args)
        end()

    monkeypatch.setattr(mcp, "_load", load)
    return main(["mcp"])


def test_ctrl_c_ends_it_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pipes: tuple[int, int]
) -> None:
    assert running_until(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT)) == STOPPED
    os.close(pipes[0])
    assert capsys.readouterr() == ("", "safelight: safelight-skills is ready for tools\n")


def test_the_end_of_input_ends_it(monkeypatch: pytest.MonkeyPatch, pipes: tuple[int, int]) -> None:
    assert running_until(monkeypatch, lambda: os.close(pipes[0])) == 0


def test_it_goes_on_when_its_model_cannot_be_loaded_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pipes: tuple[int, int]
) -> None:
    def load(*_: Any) -> None:
        raise SafelightError("there is no model at nowhere")

    monkeypatch.setattr(mcp, "load", load)
    assert running_until(monkeypatch, lambda: os.close(pipes[0])) == 0
    assert capsys.readouterr().err == "safelight: there is no model at nowhere\n"


def test_a_mistyped_adapter_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--adapter", "nowhere"]) == 2
    error = capsys.readouterr().err
    assert "there is no adapter at" in error
    assert error.count("\n") == 1


# --- the first answer, before the imports ----------------------------------------------------------------------------

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 8, "method": "tools/list"}


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def answer_in(ours: int) -> Any:
    """The next line, which may come in pieces."""
    read = b""
    while not read.endswith(b"\n"):
        read += os.read(ours, 65_536)
    return json.loads(read)


@contextmanager
def two_pipes() -> Iterator[tuple[int, int, int, int]]:
    (source, theirs), (ours, sink) = os.pipe(), os.pipe()
    yield source, sink, theirs, ours
    for descriptor in (source, sink, theirs, ours):
        os.close(descriptor)


@pytest.mark.parametrize("wanted", [*greeting.VERSIONS, "1999-01-01"])
def test_the_first_answer_is_the_library_s(wanted: str) -> None:
    asked = INITIALIZE | {"params": {**INITIALIZE["params"], "protocolVersion": wanted}}  # type: ignore[dict-item]
    scheduler = Scheduler(FakeEngine())
    with two_pipes() as (source, sink, theirs, ours):
        server = StdioServer(scheduler, ServerOptions(), source, sink, lambda: None)
        try:
            server.start()
            os.write(theirs, line(asked))
            answer = answer_in(ours)
        finally:
            server.stop()
            assert scheduler.close()
    assert answer["result"] == greeting.result_for(asked["params"])  # type: ignore[arg-type]
    assert greeting.VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS


def test_it_is_answered_once_and_the_session_goes_on() -> None:
    scheduler = Scheduler(FakeEngine())
    with two_pipes() as (source, sink, theirs, ours):
        early = greeting.Greeting(source, sink)
        os.write(theirs, line(INITIALIZE)[:30])
        os.write(theirs, line(INITIALIZE)[30:] + line(LIST)[:9])
        first = answer_in(ours)
        assert (first["id"], first["result"]["serverInfo"]["name"]) == (7, "safelight")
        read, answered = early.end()
        assert (read, answered) == (line(INITIALIZE) + line(LIST)[: len(read) - len(line(INITIALIZE))], 7)
        server = StdioServer(scheduler, ServerOptions(), source, sink, lambda: None, read, answered)
        try:
            server.start()
            os.write(theirs, line(LIST)[9:] if read.endswith(line(LIST)[:9]) else b"")
            answer = answer_in(ours)
        finally:
            server.stop()
            assert scheduler.close()
    assert (answer["id"], len(answer["result"]["tools"])) == (8, 5)


@pytest.mark.parametrize(
    "written",
    [
        b"", b"{", line(LIST), b"no JSON\n", b"[" * 9_000 + b"\n", line(INITIALIZE | {"id": True}),
        line(INITIALIZE | {"params": {}}), line(INITIALIZE | {"id": None}),
    ],
)  # fmt: skip
def test_what_is_not_the_first_message_is_left_to_the_library(written: bytes) -> None:
    with two_pipes() as (source, sink, theirs, ours):
        early = greeting.Greeting(source, sink)
        os.write(theirs, written)
        read, answered = early.end()
        assert (written.startswith(read), answered) == (True, None)
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 1)


def test_it_is_answered_before_anything_else_happens() -> None:
    here = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, *COMMAND, "--adapter", "nowhere"],
        input=line(INITIALIZE),
        capture_output=True,
        env=here,
        cwd=ROOT,
    )
    assert json.loads(found.stdout)["id"] == 7
    assert (found.returncode, found.stderr.count(b"\n")) == (2, 1)
