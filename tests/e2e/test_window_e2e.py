"""The real window with the real embedded model. Nothing here depends on how good the answers are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.page import ChatPage
from app.window.main_window import MainWindow
from engine import MINI, StepFinished

RUN_MS = 120_000


@pytest.fixture
def window(window_with: Callable[[str], MainWindow]) -> MainWindow:
    window = window_with(MINI)
    window.context.values.overrides["max_new_tokens"] = 64
    window.context.apply_values()
    return window


@pytest.fixture
def page(window: MainWindow) -> ChatPage:
    return window.pages.chat().page


def ask(qtbot: QtBot, window: MainWindow, text: str) -> None:
    edit = window.pages.chat().page.composer.edit
    qtbot.keyClicks(edit, text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


def test_stop_one_answer_and_finish_another(qtbot: QtBot, window: MainWindow, page: ChatPage) -> None:
    window.context.values.overrides |= {"entropy_bound": 0.0, "t_max": 5.0}  # one token a step, of even chances
    ask(qtbot, window, "Reverse the word robot.")
    stopped = window.context.session.chat.turns[0].answer
    qtbot.waitUntil(lambda: stopped.stats.total_steps > 0, timeout=RUN_MS)
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: window.context.session.active is None, timeout=RUN_MS)
    assert stopped.trace is not None
    assert stopped.trace.result is not None
    assert stopped.trace.result.reason == "cancelled"
    assert 0 < len(stopped.trace.steps) < 48
    view = page.turns[0].answer
    assert view.canvases[0].isVisible()
    assert view.canvases[0].block is not None
    assert view.canvases[0].block.step == stopped.trace.steps[-1].step
    assert view.status.line.text().startswith("Stopped after")

    ask(qtbot, window, "What is 47 + 5?")
    finished = window.context.session.chat.turns[1].answer
    qtbot.waitUntil(lambda: window.context.session.active is None, timeout=RUN_MS)
    trace = finished.trace
    assert trace is not None
    assert finished.status == "done"
    steps = [event for event in trace.events if isinstance(event, StepFinished)]
    assert len(steps) > 8
    assert any(step.accepted_mask.any() for step in steps)
    assert any((~step.accepted_mask).any() for step in steps)
    assert trace.result is not None
    final = trace.result.tokens
    assert window.context.model is not None
    text = window.context.model.decode(final).text
    assert finished.text == text
    view = page.turns[1].answer
    assert view.text.text() == text
    if text.strip():
        assert view.text.isVisible()
    assert f"{len(steps)} steps" in view.status.line.text()
