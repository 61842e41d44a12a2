"""``safelight mcp`` as a program starts it: by the protocol's own client, and with nobody at the other end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from app.cli import mcp
from app.cli.main import main
from app.cli.stopping import STOPPED
from engine import MINI, SafelightError
from engine.server.mcp.stdio import StdioServer
from tests.app.cli.calling import refused

ROOT = Path(__file__).resolve().parents[3]
COMMAND = ["-m", "app", "mcp", "--model", MINI]


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
    assert said.read_text() == f"safelight: {MINI} is ready for tools\n"


@pytest.fixture
def pipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The other ends of its standard streams, in this process: what it reads from, and what it writes to."""
    (source, theirs), (ours, sink) = os.pipe(), os.pipe()
    with open(sink, "w") as answers:
        made = partial(StdioServer, source=source, sink=answers)
        monkeypatch.setattr("engine.server.mcp.stdio.StdioServer", made)
        yield theirs, ours
    for descriptor in (source, ours):
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
    assert capsys.readouterr() == ("", "safelight: safelight-small is ready for tools\n")


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
    refused(capsys, "there is no adapter at", "mcp", "--adapter", "nowhere")
