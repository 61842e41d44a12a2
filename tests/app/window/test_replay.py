"""The run of an answer once more, in a chat that was opened again, and from there into the inspector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
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
