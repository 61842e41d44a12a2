"""A prompt that is entered while its model loads, and the lines under the composer: each goes with what caused it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.window.main_window import MainWindow
from engine import MINI, SUDOKU
from tests.app.chat.asking import answered, enter
from tests.fake_engine import FakeEngine

HINT = "Enter sends, Shift+Enter starts a new line"


class Slow:
    """An engine whose models load when they are let."""

    def __init__(self, fake: FakeEngine) -> None:
        self.fake, self.gate, self.load = fake, threading.Semaphore(0), fake.load_model
        fake.load_model = self._load  # type: ignore[method-assign]
        fake.check_model = lambda _path: None  # type: ignore[method-assign]

    def _load(self, *args: Any, **options: Any) -> Any:
        assert self.gate.acquire(timeout=60)
        return self.load(*args, **options)


@pytest.fixture
def slow(fake: FakeEngine) -> Iterator[Slow]:
    made = Slow(fake)
    yield made
    made.gate.release(100)


@pytest.fixture
def chat(open_chat: Callable[..., ChatController], slow: Slow) -> Iterator[ChatController]:
    made = open_chat(None)
    made._context.load(MINI)
    yield made
    slow.gate.release(100)  # before the context waits for its thread


def line(chat: ChatController) -> str:
    return chat.page.composer.hint.text()


def prompts(chat: ChatController) -> list[str]:
    return [turn.prompt for turn in chat._session.chat.turns]


def loaded(qtbot: QtBot, chat: ChatController) -> None:
    """The model is there, and what follows from that has been done."""
    qtbot.waitUntil(lambda: chat._context.model is not None, timeout=30_000)
    QApplication.processEvents()


# ---------------------------------------------------------------- while the model loads


def test_a_prompt_waits_for_the_model_and_is_sent(qtbot: QtBot, chat: ChatController, slow: Slow) -> None:
    composer = chat.page.composer
    assert composer.send.isEnabled()
    chips = chat.page.welcome.suggestions.chips
    assert chips  # of the model that is being loaded
    composer.caution("often wrong.")
    height = composer.sizeHint().height()
    enter(qtbot, chat, "hello")
    assert not composer.larger.isVisible()  # leaves its room to the line
    assert composer.sizeHint().height() == height
    assert prompts(chat) == []
    assert composer.text == "hello"
    assert line(chat).startswith("Loading Safelight Mini: ")
    assert line(chat).endswith(". Your prompt is sent then; Esc takes it back")
    assert composer.send.text() == "Take back"
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)  # once more, as nothing seems to happen: it waits all the same
    slow.gate.release()
    answered(qtbot, chat)
    assert prompts(chat) == ["hello"]
    assert composer.text == ""
    assert composer.send.text() == "Send"
    assert line(chat) == HINT


def test_what_waits_is_taken_back_by_button_key_and_typing(qtbot: QtBot, chat: ChatController, slow: Slow) -> None:
    composer = chat.page.composer
    for take_back in (composer.send.click, chat.stop, lambda: qtbot.keyClicks(composer.edit, "!")):
        enter(qtbot, chat, "hello")
        assert chat.sending.is_waiting
        take_back()
        assert not chat.sending.is_waiting
        assert composer.text.strip("!") == "hello"
        assert composer.send.text() == "Send"
        assert "Your prompt" not in line(chat)
    slow.gate.release()
    loaded(qtbot, chat)
    assert prompts(chat) == []
    assert composer.text == "hello!"


def test_a_model_that_does_not_load_leaves_the_prompt_in_the_composer(
    qtbot: QtBot, chat: ChatController, slow: Slow
) -> None:
    chat._context.load("missing")
    enter(qtbot, chat, "hello")
    slow.gate.release(2)
    qtbot.waitUntil(lambda: chat._context.loading is None, timeout=30_000)
    qtbot.waitUntil(lambda: not chat.sending.is_waiting, timeout=30_000)
    assert "cannot be loaded" in chat.notice.message.text()
    assert chat.page.composer.text == "hello"
    assert prompts(chat) == []


def test_another_model_or_none_is_not_asked_what_waited(qtbot: QtBot, chat: ChatController, slow: Slow) -> None:
    for go_elsewhere in (lambda: chat._context.load(SUDOKU), chat._context.slot.unload):
        enter(qtbot, chat, "hello")
        assert chat.sending.is_waiting
        go_elsewhere()
        qtbot.waitUntil(lambda: not chat.sending.is_waiting, timeout=30_000)
        assert chat.page.composer.text == "hello"
        chat._context.load(MINI)
    slow.gate.release(5)
    loaded(qtbot, chat)
    assert prompts(chat) == []


def test_what_waits_is_not_sent_into_another_conversation(qtbot: QtBot, chat: ChatController, slow: Slow) -> None:
    enter(qtbot, chat, "hello")
    chat._session.open_new()
    assert not chat.sending.is_waiting
    slow.gate.release()
    loaded(qtbot, chat)
    assert prompts(chat) == []
    assert chat.page.composer.text == "hello"


def test_nothing_waits_that_could_not_be_sent(qtbot: QtBot, chat: ChatController) -> None:
    enter(qtbot, chat, "  ")
    assert not chat.sending.is_waiting
    assert line(chat) == "Write something first."
    chat._context.load(SUDOKU)
    enter(qtbot, chat, "hello")
    assert not chat.sending.is_waiting
    assert "only reads Sudoku puzzles" in line(chat)


# ---------------------------------------------------------------- lines


@pytest.fixture
def ready(qtbot: QtBot, chat: ChatController, slow: Slow) -> ChatController:
    slow.gate.release()
    loaded(qtbot, chat)
    enter(qtbot, chat, "one")
    answered(qtbot, chat)
    return chat


Cause = Callable[[QtBot, ChatController], object]


def ask_again(qtbot: QtBot, chat: ChatController) -> None:
    chat.commands.again(chat._session.chat.turns[-1])
    answered(qtbot, chat)


def load_another(qtbot: QtBot, chat: ChatController) -> None:
    chat._context.load(SUDOKU)
    qtbot.waitUntil(lambda: chat._context.model is not None, timeout=30_000)


ENDS: list[Cause] = [
    lambda _qtbot, chat: chat.page.composer.edit.insertPlainText("x"),
    lambda _qtbot, chat: chat._session.open_new(),
    ask_again,
    load_another,
]


@pytest.mark.parametrize("end", ENDS, ids=["input", "another chat", "a run", "another model"])
def test_a_line_goes_with_what_caused_it(qtbot: QtBot, ready: ChatController, slow: Slow, end: Cause) -> None:
    slow.gate.release(5)
    enter(qtbot, ready, "")
    assert line(ready) == "Write something first."
    end(qtbot, ready)
    assert "Write something" not in line(ready)


def test_a_line_about_an_answer_goes_with_the_answer(qtbot: QtBot, ready: ChatController, slow: Slow) -> None:
    slow.fake.hold = True
    enter(qtbot, ready, "two")
    ready.commands.delete(ready._session.chat.turns[0])
    assert line(ready).startswith("Stop the answer first")
    slow.fake.hold = False
    slow.fake.gate.release(10)
    answered(qtbot, ready, 2)
    assert line(ready) == HINT


def test_esc_with_nothing_to_stop_says_nothing(
    qtbot: QtBot, open_window: Callable[..., MainWindow], fake: FakeEngine
) -> None:
    window = open_window()
    window.activateWindow()
    chat = window.pages.chat()
    composer = chat.page.composer
    composer.edit.setFocus()
    before = line(chat)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Escape)
    assert line(chat) == before == HINT
    qtbot.keyClick(composer.edit, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    assert line(chat) == "There is no answer yet"  # other keys say why they do nothing, where it is seen
    fake.hold = True
    enter(qtbot, chat, "hello")
    qtbot.keyClick(composer.edit, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Escape)
    fake.gate.release(10)
    [answer] = answered(qtbot, chat)
    assert answer.status == "stopped"
    assert line(chat) == HINT
