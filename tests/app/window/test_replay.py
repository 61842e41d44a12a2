"""The run of an answer once more, in the real window: under it, in reopened conversations too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.messages.answer import AnswerView
from app.chat.messages.replay import AnswerReplay
from app.window.main_window import MainWindow
from tests.app.window.asking import ask
from tests.fake_engine import FakeEngine

Open = Callable[..., MainWindow]


@pytest.fixture
def fake(tmp_path: Any) -> FakeEngine:
    return FakeEngine(tmp_path / "traces")


def answer(window: MainWindow, place: int = -1) -> AnswerView:
    return window.pages.chat().page.turns[place].answer


def read(qtbot: QtBot, replay: AnswerReplay) -> None:
    qtbot.waitUntil(lambda: replay.player.replay is not None)


def test_an_answer_is_gone_through_and_is_back_at_its_end(qtbot: QtBot, open_window: Open, fake: FakeEngine) -> None:
    fake.steps, fake.blocks = 5, 2
    window = open_window()
    ask(qtbot, window, "hello")
    view = answer(window)
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


def test_a_reopened_conversation_is_played_from_its_file(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    window.context.folders.traces.parent.mkdir(parents=True, exist_ok=True)
    ask(qtbot, window, "hello")
    session = window.context.session
    [turn] = session.chat.turns
    conversation, trace = session.conversation, turn.answer.trace
    assert trace is not None
    assert trace.path is not None
    kept = window.context.folders.traces / trace.path.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(trace.path.read_bytes())
    session.open_new()
    assert conversation is not None
    session.open(conversation)
    view = answer(window)
    assert session.chat.turns[0].answer.trace is None
    view.replay.scrub.step(-2)
    read(qtbot, view.replay)
    place = len(trace.events) - 1 - 1 - 2  # without the prefill and the end, two before the last
    assert view.replay.place == place - 1
    assert view.replay.canvas is not None
    assert view.replay.canvas.isVisible()

    view.inspect.click()
    assert window.pages.current is window.pages.inspector()
    player = window.pages.inspector().page.player
    assert player.trace is not None
    assert (player.trace.header.id, player.place) == (trace.header.id, view.replay.place)


def test_a_run_that_is_gone_says_so(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    ask(qtbot, window, "hello")
    session = window.context.session
    conversation = session.conversation
    session.open_new()
    assert conversation is not None
    session.open(conversation)  # the folder of traces is not the window's: its file is not there
    replay = answer(window).replay
    assert replay.scrub.play.isEnabled()
    replay.scrub.play.click()
    qtbot.waitUntil(lambda: bool(replay.scrub.words.text()))
    assert not replay.scrub.play.isEnabled()
    assert answer(window).text.isVisible()


def test_an_answer_without_a_run_has_no_slider(open_window: Open) -> None:
    from app.library import NewMessage

    window = open_window()
    session = window.context.session
    conversation = session.library.create(title="old")
    asked = session.library.add(conversation, NewMessage(None, "user", "hello"))
    session.library.add(conversation, NewMessage(asked, "assistant", "hello yourself"))
    session.open(conversation)
    assert not answer(window).replay.isVisible()


def test_one_run_is_held_at_a_time_and_the_pace_is_remembered(
    qtbot: QtBot, open_window: Open, settings: QSettings
) -> None:
    window = open_window()
    ask(qtbot, window, "one", "two")
    first, second = answer(window, 0).replay, answer(window, 1).replay
    first.scrub.step(-1)
    read(qtbot, first)
    second.scrub.step(-1)
    read(qtbot, second)
    assert first.player.replay is None
    assert not first.is_on
    assert answer(window, 0).text.isVisible()
    pace = second.scrub.pace
    pace.setCurrentIndex(pace.findData("0.5"))
    pace.activated.emit(pace.currentIndex())
    assert settings.value("canvas/pace") == "0.5"
    assert window.context.backend.pacing._schedule.clock.speed == first.player.speed == 0.5
