"""Tools in the chat, with the embedded model that calls them and the example tools, by mouse and keyboard."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.messages.calls import CallView
from app.state.chat.conversation import Answer
from app.tools.panel import ToolsPanel
from app.window.main_window import MainWindow
from engine import MINI
from tests.e2e.asking import RUN_MS, enter

ASKED = "24 boxes hold 36 eggs each. How many in all?"


def asking(qtbot: QtBot, window: MainWindow) -> CallView:
    """The call that waits for a decision."""

    def waiting() -> list[CallView]:
        views = window.pages.chat().page.findChildren(CallView)
        return [view for view in views if view.isVisible() and view.call.status == "asking"]

    qtbot.waitUntil(lambda: bool(waiting()), timeout=RUN_MS)
    return waiting()[0]


def ended(qtbot: QtBot, window: MainWindow, count: int) -> Answer:
    session = window.context.session
    qtbot.waitUntil(lambda: len(session.chat.turns) == count and session.active is None, timeout=RUN_MS)
    return session.chat.turns[-1].answer


def test_the_example_tools_are_added_called_with_leave_and_answered_from(
    qtbot: QtBot, window_with: Callable[[str], MainWindow]
) -> None:
    window = window_with(MINI)
    enter(qtbot, window, ASKED)
    without = ended(qtbot, window, 1)
    assert (without.text, without.rounds) == ("I have no tool for that.", [])

    panel = ToolsPanel(window.context.tools, lambda: window.context.model)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.mouseClick(panel.examples, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(window.context.tools.offered) == 4, timeout=RUN_MS)
    enter(qtbot, window, ASKED)
    view = asking(qtbot, window)
    assert view.line.text() == 'calculate(expression: "24*36")'
    qtbot.mouseClick(view.once, Qt.MouseButton.LeftButton)
    answer = ended(qtbot, window, 2)
    [made] = answer.rounds
    assert (made.calls[0].result, answer.text) == ("864", "That makes 864 eggs.")
    assert made.trace is not None
    assert made.trace.header.output_format is not None

    enter(qtbot, window, "Reverse the word stone.")
    plain = ended(qtbot, window, 3)
    assert (plain.text, plain.rounds) == ("enots", [])

    enter(qtbot, window, "what is the capital of peru")
    view = asking(qtbot, window)
    qtbot.mouseClick(view.refuse, Qt.MouseButton.LeftButton)
    refused = ended(qtbot, window, 4)
    assert refused.text == "I was not allowed to use the tool."
