"""Runs that are computed and still being shown, by a clock that the test turns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QSettings, Qt
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine.service import RunEnded
from tests.app.state.test_pace import Hands
from tests.fake_engine import FakeEngine

Open = Callable[..., MainWindow]
TURN = 0.05  # seconds that the clock is turned by


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def window(open_window: Open, settings: QSettings, hands: Hands) -> MainWindow:
    """A window with a clock that does not move."""
    settings.setValue("canvas/pace", "1")
    return open_window(now=hands)


def ask(qtbot: QtBot, window: MainWindow) -> None:
    """Ask, and wait until all of the answer is computed."""
    window.pages.chat().sending.send("hello")
    held = window.context.backend.pacing._held
    qtbot.waitUntil(lambda: bool(held) and isinstance(held[-1][1], RunEnded))


def test_what_was_computed_is_there_when_one_stops(qtbot: QtBot, window: MainWindow, fake: FakeEngine) -> None:
    fake.blocks = 3
    ask(qtbot, window)
    [turn] = window.context.session.chat.turns
    assert turn.answer.figures.steps == 0
    qtbot.keyClick(window.pages.chat().page.composer.edit, Qt.Key.Key_Escape)
    assert (turn.answer.status, turn.answer.figures.steps) == ("done", 3 * fake.steps)
    view = window.pages.chat().page.turns[0].answer
    assert view.text.isVisible()
    assert turn.answer.trace is not None
    assert len(turn.answer.trace.steps) == 3 * fake.steps


def test_what_was_computed_is_kept_when_the_window_closes(qtbot: QtBot, window: MainWindow) -> None:
    ask(qtbot, window)
    [turn] = window.context.session.chat.turns
    window.close()
    window.context.close()
    assert turn.answer.status == "done"
    assert turn.answer.text


def test_the_inspector_sees_no_more_of_a_run_than_the_chat(qtbot: QtBot, window: MainWindow, hands: Hands) -> None:
    ask(qtbot, window)
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer, 0)
    page = window.pages.inspector().page
    answer = window.context.session.chat.turns[0].answer
    accepted = set()
    while window.context.session.active is not None:
        hands.time += TURN
        window.context.backend.pacing.drain()
        if page.player.replay is None:
            continue
        page._take_in()  # as its timer would
        shown, block = page.player.shown, answer.canvas.blocks[0]
        assert shown is not None
        assert (shown.step, shown.committed) == (block.step, block.committed)
        accepted.add(shown.accepted_count)
        assert page.canvas.view.block is not None
        assert page.canvas.view.block.accepted_count == shown.accepted_count
    assert {1, 2, 3, 4, 5} <= accepted
    assert page.player.replay is not None
    assert page.player.place == len(page.player.replay.frames) - 1
