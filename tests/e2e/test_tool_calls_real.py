"""A model that others published calls a tool in the chat, and goes on from its result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.messages.calls import CallView
from app.window.main_window import MainWindow
from engine.tools.declared import ToolServer
from tests.real.packages import qwen_05b, qwen_15b

pytestmark = pytest.mark.real
PLAIN = Path(__file__).parents[1] / "engine" / "tools" / "plain_server.py"
RUN_MS = 300_000


@pytest.mark.parametrize(("find", "answers"), [(qwen_05b, False), (qwen_15b, True)], ids=["0.5b", "1.5b"])
def test_qwen_calls_a_tool(
    qtbot: QtBot, window_with: Callable[[str], MainWindow], find: Callable[[], Path], answers: bool
) -> None:
    """The smaller one only repeats its call behind the result."""
    window = window_with(str(find()))
    tools, session, page = window.context.tools, window.context.session, window.pages.chat().page
    tools.set_servers((ToolServer("sums", sys.executable, ("-S", "-E", str(PLAIN))),))
    qtbot.waitUntil(lambda: bool(tools.offered), timeout=RUN_MS)
    page.composer.set_text("What is 1234 + 4321? Use the tool.")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)

    def asking() -> list[CallView]:
        return [view for view in page.findChildren(CallView) if view.call.status == "asking"]

    qtbot.waitUntil(lambda: bool(asking()), timeout=RUN_MS)
    asking()[0].once.click()
    qtbot.waitUntil(lambda: session.active is None, timeout=RUN_MS)
    answer = session.chat.turns[-1].answer
    [call] = answer.rounds[0].calls
    assert (call.called, call.arguments, call.result) == ("add", {"first": 1234, "second": 4321}, "5555")
    assert answer.status == "done"
    assert ("5555" in answer.text) is answers
