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
from app.chat.welcome import SPEED, FirstRun
from app.design import motion
from app.library import NewMessage
from engine.tasks import skills
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


# ---------------------------------------------------------------- the run that an empty conversation plays once


@pytest.fixture
def chat(open_chat: Open) -> ChatController:
    return open_chat()


@pytest.fixture
def shown(qtbot: QtBot, chat: ChatController) -> FirstRun:
    found = chat.page.findChild(FirstRun)
    assert found is not None
    qtbot.waitUntil(lambda: found.is_read)
    return found


def now(shown: FirstRun) -> list[str]:
    return [caption.text() for caption in shown.captions if caption.property("tense") == "now"]


def is_at_its_end(shown: FirstRun) -> bool:
    replay = shown.player.replay
    return replay is not None and not shown.player.is_playing and shown.player.place == len(replay.frames) - 1


def test_it_plays_real_steps_with_captions_once_and_again_when_asked(
    qtbot: QtBot, chat: ChatController, shown: FirstRun
) -> None:
    player, replay = shown.player, shown.player.replay
    assert replay is not None
    assert skills.check(player.trace.prompt, player.trace.text)
    assert player.is_playing
    qtbot.waitUntil(lambda: shown.canvas is not None and shown.canvas.isVisible())
    assert now(shown) == ["It begins as noise."]
    said = []
    for place in range(len(replay.frames)):
        player.go(place)
        said += now(shown)
        block = replay.snapshot(place)
        taken_back = f"{block.taken_back_total} taken back"
        assert (taken_back in shown.figures.text()) == bool(block.taken_back_total)
    noise, doubt, ink = dict.fromkeys(said)
    assert (noise, said.count(noise)) == ("It begins as noise.", 1)
    assert (doubt, ink) == ("Tokens are tried, doubted, taken back.", "Sure ones stay.")
    shown.stop()
    assert shown.figures.text() == "Done in 20 steps · 4 taken back"
    chat._session.open_new()  # another empty conversation
    assert is_at_its_end(shown)
    assert shown.again.isVisible()
    shown.again.click()
    assert player.is_playing
    assert player.place == 0
    assert not shown.again.isVisible()
    shown.play()  # once more, and no faster
    assert (player.place, player.speed) == (0, SPEED)


def test_typing_sending_and_another_page_stop_it(qtbot: QtBot, chat: ChatController, shown: FirstRun) -> None:
    qtbot.keyClicks(chat.page.composer.edit, "S")
    assert is_at_its_end(shown)
    shown.play()
    chat.widget.hide()
    assert is_at_its_end(shown)
    chat.widget.show()
    shown.play()
    chat.sending.pick(skills.suggestions()[0])
    assert is_at_its_end(shown)
    assert not shown.isVisible()  # not next to messages
    qtbot.waitUntil(lambda: chat._session.active is None)


def test_under_reduced_motion_its_last_frame_is_there_at_once(qtbot: QtBot) -> None:
    motion.set_reduced(True)
    shown = FirstRun()
    qtbot.addWidget(shown)
    shown.show()
    qtbot.waitUntil(lambda: shown.is_read)
    assert is_at_its_end(shown)
    assert shown.again.isVisible()
