"""The walls of the house: import contracts, lint and types. They run in the test command, not beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CHECKS = {
    "ruff": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "import-linter": [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"],
}


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All checks at once, each in a process of its own."""
    with ExitStack() as ended:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        yield {
            name: ended.enter_context(subprocess.Popen(command, cwd=ROOT, **pipes))  # type: ignore[call-overload]
            for name, command in CHECKS.items()
        }


@pytest.mark.parametrize("name", CHECKS)
def test_walls_stand(name: str, running: dict[str, subprocess.Popen[str]]) -> None:
    told = running[name].communicate()[0]
    assert running[name].returncode == 0, f"{name} failed:\n{told}"
