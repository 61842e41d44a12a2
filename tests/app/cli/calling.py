"""Calls the command as its users do."""

from __future__ import annotations

from typing import Any

import pytest

import engine
from app.cli.main import main
from engine.catalog import is_embedded
from tests.loaded import embedded

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    """Returns the exit status of a command, and what it printed to standard output and error."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys: Capture, said: str, *arguments: object) -> None:
    """Call a command that must end with status 2 and one line that says so, before it prints anything."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in one_line(err)
    assert len(err) < 800


def one_line(err: str) -> str:
    """Returns what a failed command printed, which is one line that names the program."""
    assert err.startswith("safelight: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    return err


def load_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load each embedded model once for all; anything else goes through the real ``load_model``."""
    real = engine.load_model

    def load(name: str, **options: Any) -> engine.Model:
        plain = {value for option, value in options.items() if option != "progress"}
        if not is_embedded(name) or plain != {"auto", 0}:
            return real(name, **options)
        return embedded(name)

    monkeypatch.setattr(engine, "load_model", load)
