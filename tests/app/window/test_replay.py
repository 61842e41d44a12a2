"""The run of an answer once more, in a chat that was opened again, and from there into the inspector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QSettings, Qt
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine.service import RunEnded
from tests.app.state.test_pace import Hands
from tests.app.window.asking import ask
from tests.fake_engine import FakeEngine

Open = Callable[..., MainWindow]


@pytest.fixture
def fake(tmp_path: Any) -> FakeEngine:
    return FakeEngine(tmp_path / "traces")


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
    view = window.pages.chat().page.turns[0].answer
    assert session.chat.turns[0].answer.trace is None
    view.replay.scrub.step(-2)
    qtbot.waitUntil(lambda: view.replay.player.replay is not None)
    place = len(trace.events) - 1 - 1 - 2  # without the prefill and the end, two before the last
    assert view.replay.place == place - 1
    assert view.replay.canvas is not None
    assert view.replay.canvas.isVisible()

    view.inspect.click()
    assert window.pages.current is window.pages.inspector()
    player = window.pages.inspector().page.player
    assert player.trace is not None
    assert (player.trace.header.id, player.place) == (trace.header.id, view.replay.place)


# ---------------------------------------------------------------- by a clock that the test turns


TURN = 0.05  # seconds that the clock is turned by


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def window(open_window: Open, settings: QSettings, hands: Hands) -> MainWindow:
    """A window with a clock that does not move."""
    settings.setValue("canvas/pace", "1")
    return open_window(now=hands)


def ask_slowly(qtbot: QtBot, window: MainWindow) -> None:
    """Ask, and wait until all of the answer is computed."""
    window.pages.chat().sending.send("hello")
    held = window.context.backend.pacing._held
    qtbot.waitUntil(lambda: bool(held) and isinstance(held[-1][1], RunEnded))


def test_what_was_computed_is_there_when_one_stops(qtbot: QtBot, window: MainWindow, fake: FakeEngine) -> None:
    fake.blocks = 3
    ask_slowly(qtbot, window)
    [turn] = window.context.session.chat.turns
    assert turn.answer.figures.steps == 0
    qtbot.keyClick(window.pages.chat().page.composer.edit, Qt.Key.Key_Escape)
    assert (turn.answer.status, turn.answer.figures.steps) == ("done", 3 * fake.steps)
    view = window.pages.chat().page.turns[0].answer
    assert view.text.isVisible()
    assert turn.answer.trace is not None
    assert len(turn.answer.trace.steps) == 3 * fake.steps


def test_what_was_computed_is_kept_when_the_window_closes(qtbot: QtBot, window: MainWindow) -> None:
    ask_slowly(qtbot, window)
    [turn] = window.context.session.chat.turns
    window.close()
    window.context.close()
    assert turn.answer.status == "done"
    assert turn.answer.text


def test_the_inspector_sees_no_more_of_a_run_than_the_chat(qtbot: QtBot, window: MainWindow, hands: Hands) -> None:
    ask_slowly(qtbot, window)
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
