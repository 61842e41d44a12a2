"""The real window in a process of its own: killed in the middle of an answer; and offline, without one socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.bridge.engine_thread import EngineLink
from app.main import make_window
from app.window.main_window import MainWindow
from engine import MINI
from engine.service import LocalBackend
from tests.e2e.asking import ask
from tests.e2e.child_window import FORBIDDEN

CHILD = Path(__file__).with_name("child_window.py")
PATIENCE = 120


@pytest.fixture
def child() -> Iterator[Any]:
    """Starts the window in a mode; ended at the end in any case."""
    started: list[subprocess.Popen[str]] = []

    def start(mode: str) -> subprocess.Popen[str]:
        here = {**os.environ, "PYTHONPATH": str(CHILD.parents[2])}
        process = subprocess.Popen([sys.executable, str(CHILD), mode], stdout=subprocess.PIPE, text=True, env=here)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


def facts(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


@pytest.mark.slow  # a killed writer and a killed conversion have shorter tests
def test_a_kill_in_the_middle_of_an_answer_loses_nothing_that_was_on_screen(qtbot: QtBot, child: Any) -> None:
    process = child("developing")
    lines = facts(process)
    last = [next(lines) for _ in range(5)][-1]
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    written = Path(os.environ["XDG_CONFIG_HOME"]) / "Safelight" / "Safelight.conf"
    window = make_window(EngineLink(LocalBackend()), QSettings(str(written), QSettings.Format.IniFormat))
    assert window.context.session.library.notice == ""
    qtbot.addWidget(window)
    try:
        window.show()
        window.reopening.reopen()
        (summary,) = window.context.session.library.summaries()
        assert summary.title == "Count from 4 to 43."
        (turn,) = window.context.session.chat.turns
        assert turn.prompt == "Count from 4 to 43."
        assert turn.answer.text == last["draft"] != ""
        assert turn.answer.status == "stopped"
        assert turn.answer.figures.steps == last["steps"]
        assert [view.turn for view in window.pages.chat().page.turns] == [turn]
    finally:
        window.close()


@pytest.fixture
def used() -> Iterator[list[str]]:
    """Uses of a network, which are forbidden as long as the test runs."""
    found: list[str] = []

    def forbid(event: str, arguments: tuple[object, ...]) -> None:
        if event in FORBIDDEN and watching:
            found.append(f"{event} {arguments}")
            raise RuntimeError(f"offline, and yet: {event} {arguments}")

    watching = [True]
    sys.addaudithook(forbid)  # it cannot be removed
    yield found
    watching.clear()


def test_offline_means_no_socket_at_all(qtbot: QtBot, window_with: Callable[..., MainWindow], used: list[str]) -> None:
    window = window_with(MINI, offline=True)
    window.context.values.overrides |= {"confidence_threshold": 0.0, "max_new_tokens": 32}
    window.context.apply_values()
    assert ask(qtbot, window, "Count from 4 to 43.").text
    window.show_page("models")
    page = window.pages.models().page
    page.small.fold.click()
    actions = {
        name
        for row in page.rows.values()
        for name, button in row.buttons.items()
        if button.isVisible() and button.isEnabled()
    }
    assert "load" in actions
    assert "download" not in actions
    window.close()
    assert used == []


@pytest.mark.slow  # shows of a whole process what the test above shows of its window
def test_a_process_that_is_offline_makes_no_socket(child: Any) -> None:
    process = child("offline")
    (end,) = list(facts(process))
    assert process.wait(PATIENCE) == 0
    assert end["used"] == []
    assert end["answer"]
    assert "load" in end["actions"]
    assert "download" not in end["actions"]
