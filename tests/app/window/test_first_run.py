"""The run that an empty conversation plays once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.chat.welcome import SPEED, FirstRun
from app.context import AppContext
from app.design import motion
from engine.tasks import skills


@pytest.fixture
def chat(qtbot: QtBot, open_context: Callable[..., AppContext]) -> ChatController:
    made = ChatController(open_context())
    qtbot.addWidget(made.widget)
    made.widget.resize(1000, 700)
    made.widget.show()
    return made


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
