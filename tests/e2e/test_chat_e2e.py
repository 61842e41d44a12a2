"""A chat from the first launch on, with the real embedded model and the keyboard alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.chat.page import ChatPage
from app.state.chat.conversation import Answer
from app.window.main_window import MainWindow
from engine import MINI, StepFinished
from tests.e2e.asking import RUN_MS, enter, focused, idle

CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
Key = Qt.Key
TYPED = 4  # letters of a prompt; the others are there


@pytest.fixture
def window(window_with: Callable[[str], MainWindow]) -> MainWindow:
    window = window_with(MINI)
    window.activateWindow()
    return window


@pytest.fixture
def page(window: MainWindow) -> ChatPage:
    return window.pages.chat().page


def tab_to(qtbot: QtBot, name: str, *, back: bool = False) -> QWidget:
    """Go on with Tab until a control of that name has the keyboard."""
    for _ in range(200):
        if focused().accessibleName() == name:
            return focused()
        qtbot.keyClick(focused(), Key.Key_Backtab if back else Key.Key_Tab)
    raise AssertionError(f"Tab does not reach {name!r}")


def type_prompt(qtbot: QtBot, window: MainWindow, text: str) -> Answer:
    qtbot.keyClick(window, Key.Key_L, CONTROL)
    composer = window.pages.chat().page.composer
    composer.set_text(text[:-TYPED])
    composer.edit.moveCursor(QTextCursor.MoveOperation.End)
    qtbot.keyClicks(focused(), text[-TYPED:])
    qtbot.keyClick(focused(), Key.Key_Return)
    return idle(qtbot, window)


def prompts(window: MainWindow) -> list[str]:
    shown = [turn.prompt for turn in window.context.session.chat.turns]
    assert [view.turn.prompt for view in window.pages.chat().page.turns] == shown
    return shown


def titles(window: MainWindow) -> list[str]:
    return [summary.title for summary in window.context.session.library.summaries()]


def test_from_first_launch_to_branches(qtbot: QtBot, window: MainWindow, page: ChatPage) -> None:
    assert page.welcome.isVisible()
    assert window.sidebar.nothing_yet.isVisible()
    assert type_prompt(qtbot, window, "Reverse the word robot.").text == "tobor"
    assert titles(window) == ["Reverse the word robot."]
    type_prompt(qtbot, window, "What is 47 + 5?")

    # regenerate, and go through the versions
    qtbot.keyClick(window, Key.Key_R, CONTROL)
    idle(qtbot, window)
    second = window.context.session.chat.turns[1]
    assert [answer.seed for answer in second.answers.items] == [3, 4]
    for _ in range(2):  # past the composer, to the end of the conversation
        tab_to(qtbot, "Send the prompt")
    tab_to(qtbot, "Earlier version of the answer", back=True)
    qtbot.keyClick(focused(), Key.Key_Space)
    assert second.answers.shown == 0

    # edit the first prompt: a branch
    page.scroller.verticalScrollBar().setValue(0)
    view = page.turns[0]
    view.prompt.edit.setFocus()
    qtbot.keyClick(view.prompt.edit, Key.Key_Space)
    qtbot.keyClick(focused(), Key.Key_A, CONTROL)
    qtbot.keyClicks(focused(), "Reverse the word stone.")
    qtbot.keyClick(focused(), Key.Key_Return)
    assert idle(qtbot, window).text == "enots"
    assert prompts(window) == ["Reverse the word stone."]
    before = page.turns[0].prompt.versions.before
    before.setFocus()
    qtbot.keyClick(before, Key.Key_Space)
    assert prompts(window) == ["Reverse the word robot.", "What is 47 + 5?"]

    # delete a turn, and undo that
    page.turns[1].prompt.delete.click()
    assert prompts(window) == ["Reverse the word robot."]
    page.notice.undo.click()
    assert prompts(window) == ["Reverse the word robot.", "What is 47 + 5?"]
    assert not page.notice.isVisible()


def test_stop_one_answer_and_finish_another(qtbot: QtBot, window: MainWindow, page: ChatPage) -> None:
    slow = {"max_new_tokens": 64, "entropy_bound": 0.0, "t_max": 5.0}  # one token a step, of even chances
    window.context.values.overrides |= slow
    window.context.apply_values()
    enter(qtbot, window, "Reverse the word robot.")
    stopped = window.context.session.chat.turns[0].answer
    qtbot.waitUntil(lambda: stopped.stats.total_steps > 0, timeout=RUN_MS)
    qtbot.keyClick(page.composer.edit, Key.Key_Escape)
    idle(qtbot, window)
    assert stopped.trace is not None
    assert stopped.trace.result is not None
    assert stopped.trace.result.reason == "cancelled"
    assert 0 < len(stopped.trace.steps) < 48
    view = page.turns[0].answer
    assert view.canvases[0].isVisible()
    assert view.canvases[0].block is not None
    assert view.canvases[0].block.step == stopped.trace.steps[-1].step
    assert view.status.line.text().startswith("Stopped after")

    window.context.values.overrides["max_denoising_steps"] = 16
    window.context.apply_values()
    finished = type_prompt(qtbot, window, "What is 47 + 5?")
    assert (finished.status, page.turns[1].answer.text.text()) == ("done", finished.text)
    assert finished.trace is not None
    assert finished.trace.result is not None
    assert window.context.model is not None
    assert finished.text == window.context.model.decode(finished.trace.result.tokens).text
    steps = [event for event in finished.trace.events if isinstance(event, StepFinished)]
    assert len(steps) > 8
    assert any(step.accepted_mask.any() for step in steps)
    assert any((~step.accepted_mask).any() for step in steps)
    assert f"{len(steps)} steps" in page.turns[1].answer.status.line.text()


def test_the_library_by_keyboard(qtbot: QtBot, window: MainWindow, page: ChatPage, tmp_path: Path) -> None:
    for prompt in ("Reverse the word robot.", "What is 47 + 5?"):
        qtbot.keyClick(window, Key.Key_N, CONTROL)
        type_prompt(qtbot, window, prompt)
    assert titles(window) == ["What is 47 + 5?", "Reverse the word robot."]

    # search by what an answer says
    qtbot.keyClick(window, Key.Key_F, CONTROL | SHIFT)
    qtbot.keyClicks(focused(), "tobor")
    qtbot.waitUntil(lambda: window.sidebar.list.model().rowCount() == 2)  # a header and one conversation
    qtbot.keyClick(focused(), Key.Key_Return)
    assert prompts(window) == ["Reverse the word robot."]
    qtbot.keyClick(window, Key.Key_F, CONTROL | SHIFT)
    qtbot.keyClick(focused(), Key.Key_Escape)
    qtbot.waitUntil(lambda: window.sidebar.list.model().rowCount() == 3)

    # rename
    qtbot.keyClick(focused(), Key.Key_Down)
    assert focused() is window.sidebar.list
    qtbot.keyClick(focused(), Key.Key_Home)
    qtbot.keyClick(focused(), Key.Key_F2)
    field = window.sidebar.list.findChild(QLineEdit)
    qtbot.keyClick(field, Key.Key_A, CONTROL)
    qtbot.keyClicks(field, "Sums")
    qtbot.keyClick(field, Key.Key_Return)
    qtbot.waitUntil(lambda: titles(window) == ["Sums", "Reverse the word robot."])

    # delete, and undo that
    window.sidebar.list.setFocus()
    qtbot.keyClick(window.sidebar.list, Key.Key_Delete)
    assert titles(window) == ["Reverse the word robot."]
    qtbot.keyClick(window.sidebar.list, Key.Key_Z, CONTROL)
    assert titles(window) == ["Sums", "Reverse the word robot."]
    assert prompts(window) == ["What is 47 + 5?"]

    # export and import
    for form in ("markdown", "json"):
        path = tmp_path / f"sums.{form}"
        window.conversations.ask_save = lambda _name, path=path: str(path)
        with qtbot.waitSignal(window.conversations._exporting.exported):
            assert window.actions_by_name.run(f"export-{form}") == ""
        assert "52" in path.read_text(encoding="utf-8")
    assert json.loads((tmp_path / "sums.json").read_text(encoding="utf-8"))
    window.conversations.ask_open = lambda: [str(tmp_path / "sums.json")]
    window.actions_by_name.run("import")
    qtbot.waitUntil(lambda: titles(window).count("Sums") == 2)
    assert prompts(window) == ["What is 47 + 5?"]
    assert window.context.session.chat.turns[0].answer.text == "52"
    window.conversations.ask_open = lambda: __file__
    window.actions_by_name.run("import")
    qtbot.waitUntil(page.notice.isVisible)
    assert titles(window).count("Sums") == 2
