"""The run that an empty conversation plays once, on the real window."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.chat.welcome import RUN, SPEED, FirstRun
from app.window.main_window import MainWindow
from engine import MINI, gallery, open_trace
from engine.tasks import skills

Open = Callable[..., MainWindow]


def opened(qtbot: QtBot, open_window: Open) -> tuple[MainWindow, FirstRun]:
    window = open_window(MINI)
    found = window.findChild(FirstRun)
    assert found is not None
    qtbot.waitUntil(lambda: found.is_read)
    return window, found


def now(shown: FirstRun) -> list[str]:
    return [caption.text() for caption in shown.captions if caption.property("tense") == "now"]


def is_at_its_end(shown: FirstRun) -> bool:
    replay = shown.player.replay
    return replay is not None and not shown.player.is_playing and shown.player.place == len(replay.frames) - 1


def test_it_plays_real_steps_with_captions_once_and_again_when_asked(qtbot: QtBot, open_window: Open) -> None:
    window, shown = opened(qtbot, open_window)
    player, replay = shown.player, shown.player.replay
    assert replay is not None
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
    window.context.session.open_new()  # another empty conversation
    assert is_at_its_end(shown)
    assert shown.again.isVisible()
    shown.again.click()
    assert player.is_playing
    assert player.place == 0
    assert not shown.again.isVisible()
    shown.play()  # once more, and no faster
    assert (player.place, player.speed) == (0, SPEED)


def test_typing_sending_and_another_page_stop_it(qtbot: QtBot, open_window: Open) -> None:
    window, shown = opened(qtbot, open_window)
    chat = window.pages.chat()
    qtbot.keyClicks(chat.page.composer.edit, "S")
    assert is_at_its_end(shown)
    shown.play()
    window.show_page("models")
    assert is_at_its_end(shown)
    window.show_page("chat")
    shown.play()
    chat.sending.pick(skills.suggestions()[0])
    assert is_at_its_end(shown)
    assert not shown.isVisible()  # not beside messages
    qtbot.waitUntil(lambda: window.context.session.active is None)


def test_under_reduced_motion_its_last_frame_is_there_at_once(
    qtbot: QtBot, open_window: Open, settings: QSettings
) -> None:
    settings.setValue("canvas/reduced_motion", True)
    _, shown = opened(qtbot, open_window)
    assert is_at_its_end(shown)
    assert shown.again.isVisible()


def test_the_run_has_what_the_captions_say() -> None:
    trace = open_trace(next(one.path for one in gallery() if one.path.stem == RUN))
    assert skills.check(trace.prompt, trace.text)
    assert len(trace.steps) >= 12
    assert trace.text.count("\n") >= 5
