"""The smoke test itself: it fails where a program does, and goes on to the next check."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import smoke


@pytest.fixture
def program(tmp_path: Path) -> smoke.Program:
    return smoke.Program(
        sys.executable, sys.executable, tmp_path, smoke.bare(tmp_path, {"PATH": "/bin", "SECRET": "x"})
    )


def test_a_check_that_fails_is_said_and_the_next_one_is_made(
    program: smoke.Program, capsys: pytest.CaptureFixture[str]
) -> None:
    def answers(program: smoke.Program) -> str:
        return smoke.expect("52", program.run("-c", "print(47 + 5)"))

    def is_wrong(program: smoke.Program) -> str:
        return smoke.expect("52", program.run("-c", "print(47 - 5)"))

    def fails(program: smoke.Program) -> str:
        return program.run("-c", "raise SystemExit('no model')")

    assert smoke.check(program, (answers,)) == 0
    assert smoke.check(program, (is_wrong, fails, answers)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["FAILED", "is_wrong"], ["FAILED", "fails"], ["ok", "answers"]]
    assert "'52' is not in '42" in lines[1]
    assert "exit status 1: no model" in lines[2]
    assert "SECRET" not in program.run("-c", "import os; print(sorted(os.environ))")


def test_a_server_that_says_nothing_is_not_waited_for(
    program: smoke.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "serve").write_text("import time; time.sleep(600)")  # what Python is asked to run
    monkeypatch.setattr(smoke, "SECONDS", 0.3)
    assert smoke.check(program, (smoke.serve,)) == 1
    assert "it ended before it listened" in capsys.readouterr().out


def test_a_bundle_without_talk_fails_and_an_installation_does_not(
    program: smoke.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_arguments: object, **_named: object) -> str:
        raise smoke.SmokeError("exit status 2: safelight: Safelight Talk is not installed; run: uv sync")

    monkeypatch.setattr(smoke.Program, "run", run)
    assert smoke.talk(program) == "Safelight Talk is not installed"
    bundle = dataclasses.replace(program, commands=str(tmp_path / "safelight"))
    (tmp_path / "_internal").mkdir()
    with pytest.raises(smoke.SmokeError, match="not installed"):
        smoke.talk(bundle)
