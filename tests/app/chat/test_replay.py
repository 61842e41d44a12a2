"""The run of an answer once more, under the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.chat.messages.replay import AnswerReplay
from app.library import NewMessage
from tests.app.chat.asking import answered, enter
from tests.fake_engine import FakeEngine

Open = Callable[..., ChatController]


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path / "traces")


def ask(qtbot: QtBot, chat: ChatController, *prompts: str) -> None:
    for count, prompt in enumerate(prompts, 1):
        enter(qtbot, chat, prompt)
        answered(qtbot, chat, count)


def read(qtbot: QtBot, replay: AnswerReplay) -> None:
    qtbot.waitUntil(lambda: replay.player.replay is not None)


def test_an_answer_is_gone_through_and_is_back_at_its_end(qtbot: QtBot, open_chat: Open, fake: FakeEngine) -> None:
    fake.steps, fake.blocks = 5, 2
    chat = open_chat()
    ask(qtbot, chat, "hello")
    view = chat.page.turns[0].answer
    replay, scrub = view.replay, view.replay.scrub
    assert replay.isVisible()
    assert scrub.slider.maximum() == 2 * (5 + 2) - 1  # known before the run is read
    assert replay.player.replay is None
    scrub.back.click()
    read(qtbot, replay)
    assert (replay.player.place, replay.is_on) == (12, True)
    assert replay.canvas is not None
    assert replay.canvas.isVisible()
    assert not view.text.isVisible()
    assert scrub.words.text() == "Block 2, step 5 of 5"
    scrub.slider.setValue(0)
    assert scrub.words.text() == "Block 1, noise"
    QTest.keyClick(scrub.slider, Qt.Key.Key_Right)
    assert replay.canvas.block is not None
    assert replay.canvas.block.steps == 1
    scrub.play.click()
    assert replay.player.is_playing
    qtbot.waitUntil(lambda: not replay.player.is_playing)
    assert not replay.is_on
    assert view.text.isVisible()
    assert not replay.stage.isVisible()
    scrub.play.click()  # again, from the beginning
    assert (replay.player.place, replay.is_on) == (0, True)


def test_a_run_that_is_gone_says_so_and_an_answer_without_one_has_no_slider(qtbot: QtBot, open_chat: Open) -> None:
    chat = open_chat()
    ask(qtbot, chat, "hello")
    session = chat._session
    conversation = session.conversation
    session.open_new()
    assert conversation is not None
    session.open(conversation)  # the folder of traces is not the app's: its file is not there
    view = chat.page.turns[0].answer
    play = view.replay.scrub.play
    assert play.isEnabled()
    play.click()
    qtbot.waitUntil(lambda: bool(view.replay.scrub.words.text()))
    assert not play.isEnabled()
    assert view.text.isVisible()
    old = session.library.create(title="old")
    asked = session.library.add(old, NewMessage(None, "user", "hello"))
    session.library.add(old, NewMessage(asked, "assistant", "hello yourself"))
    session.open(old)
    assert not chat.page.turns[0].answer.replay.isVisible()


def test_one_run_is_held_at_a_time_and_the_pace_is_remembered(
    qtbot: QtBot, open_chat: Open, settings: QSettings
) -> None:
    chat = open_chat()
    ask(qtbot, chat, "one", "two")
    first, second = (view.answer.replay for view in chat.page.turns)
    for replay in (first, second):
        replay.scrub.step(-1)
        read(qtbot, replay)
    assert first.player.replay is None
    assert not first.is_on
    assert chat.page.turns[0].answer.text.isVisible()
    pace = second.scrub.pace
    pace.setCurrentIndex(pace.findData("0.5"))
    pace.activated.emit(pace.currentIndex())
    assert settings.value("canvas/pace") == "0.5"
    assert chat._context.backend.pacing._schedule.clock.speed == first.player.speed == 0.5
