"""``safelight serve`` from its start to the signal that ends it."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

import tests.hasty_servers  # noqa: F401
from app.cli import loading, options, serve, stopping
from app.cli.main import main, parser
from engine import SafelightError
from tests.app.cli.calling import refused


@pytest.fixture(autouse=True)
def _no_key_of_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(options.KEY_VARIABLE, raising=False)


def ending_when_it_listens(monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], None]) -> None:
    """Ask something as soon as the server has said where it listens, then end it as Ctrl+C does."""
    usual = serve._print

    def print_and_end(args: Any, settings: Any, url: str, model: Any) -> None:
        usual(args, settings, url, model)
        ask(url)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(serve, "_print", print_and_end)


def test_it_says_where_it_is_answers_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[httpx2.Response] = []

    def ask(url: str) -> None:
        answers.append(httpx2.get(f"{url}/health"))

    ending_when_it_listens(monkeypatch, ask)
    before = signal.getsignal(signal.SIGINT)
    assert main(["serve", "--json", "--parallel", "2"]) == 0
    assert signal.getsignal(signal.SIGINT) == before
    found = json.loads(capsys.readouterr().out)
    assert answers[0].status_code == 200
    assert found["url"].startswith("http://127.0.0.1:")
    assert len(found["api_key"]) >= 32
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("safelight")]


def test_a_given_key_is_not_shown_and_a_warning_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(options.KEY_VARIABLE, "my-key")
    answers: list[int] = []

    def ask(url: str) -> None:
        for key in ("my-key", "another"):
            answer = httpx2.get(f"{url}/v1/models", headers={"X-Api-Key": key})
            answers.append(answer.status_code)

    ending_when_it_listens(monkeypatch, ask)
    assert main(["serve", "--host", "0.0.0.0"]) == 0
    said = capsys.readouterr()
    assert answers == [200, 401]
    assert "my-key" not in said.out + said.err
    assert f"Bearer ${options.KEY_VARIABLE}" in said.out
    assert "can be reached from other machines" in said.err


def test_bad_options_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, said in (
            (["--port", port], "is used by another program"),
            (["--port", "70000"], "the port must be"),
            (["--origin", "somewhere"], "is not an origin"),
            (["--api-key", ""], "the key must be"),
            (["--host", "no such host"], "is not an address of this machine"),
            (["--model", "nowhere"], "there is no model at"),
            (["--adapter", "nowhere"], "there is no adapter at"),
        ):
            refused(capsys, said, "serve", *options)


def test_it_can_be_stopped_while_it_loads(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def load(_backend: Any, _path: str, progress: Callable[[float], None], _threads: int) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            progress(1.0)  # raises once the load is cancelled

    monkeypatch.setattr(loading.ChosenBackend, "load_model", load)
    assert main(["serve"]) == stopping.STOPPED
    assert "stopped" in capsys.readouterr().err


def test_a_server_that_ends_by_itself_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.server.RunningServer.is_running", property(lambda _server: False))
    monkeypatch.setattr(serve, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(serve, "load", lambda *_: object())
    monkeypatch.setattr(serve, "_print", lambda *_: None)
    with pytest.raises(SafelightError, match="stopped unexpectedly"):
        serve.run(parser().parse_args(["serve"]))
