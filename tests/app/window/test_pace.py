"""How long a run is on show in the real window, by a clock that the test turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QSettings, Qt
from pytestqt.qtbot import QtBot

from app.canvas.view import CanvasView
from app.state.run.pace import LONGEST_SECONDS, NOISE_SECONDS, SHORTEST_SECONDS
from app.window.main_window import MainWindow
from engine import MINI
from engine.service import RunEnded
from tests.app.state.test_pace import Hands
from tests.fake_engine import FakeEngine

Open = Callable[..., MainWindow]
TURN = 0.05  # seconds that the clock is turned by


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def open_paced(open_window: Open, settings: QSettings, hands: Hands) -> Open:
    """Opens the window at a pace, with a clock that stands still."""

    def open_one(pace: str = "1", model: str = MINI) -> MainWindow:
        settings.setValue("canvas/pace", pace)
        return open_window(model, now=hands)

    return open_one


def ask(qtbot: QtBot, window: MainWindow) -> None:
    """Ask, and wait until all of the answer is computed."""
    composer = window.pages.chat().page.composer
    composer.edit.setPlainText("hello")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    await_end(qtbot, window)


def await_end(qtbot: QtBot, window: MainWindow) -> None:
    """Wait until all of the run is computed."""
    held = window.context.backend.pacing._held
    qtbot.waitUntil(lambda: bool(held) and isinstance(held[-1][1], RunEnded))


def turned(window: MainWindow, hands: Hands, busy: Callable[[], bool]) -> Iterator[float]:
    """Turn the clock as long as something is under way; the seconds that have passed."""
    start = hands.time
    while busy():
        yield hands.time - start
        assert hands.time - start < 100
        hands.time += TURN
        window.context.backend.pacing.drain()
    yield hands.time - start


def canvases(window: MainWindow) -> list[CanvasView]:
    return window.pages.chat().page.turns[-1].answer.canvases


@pytest.mark.parametrize(("steps", "pace"), [(1, "1"), (48, "1"), pytest.param(6, "0.25", marks=pytest.mark.slow)])
def test_a_block_in_the_chat_takes_its_time(
    qtbot: QtBot, open_paced: Open, fake: FakeEngine, hands: Hands, steps: int, pace: str
) -> None:
    fake.steps, fake.blocks = steps, 2
    window = open_paced(pace)
    ask(qtbot, window)
    session, noise, committed = window.context.session, [], []
    for time in turned(window, hands, lambda: session.active is not None):
        blocks = [view.block for view in canvases(window) if view.block is not None]
        noise += [time] * (len(blocks) == 1 and blocks[0].steps == 0)
        committed += [time] * (len(committed) < sum(block.committed for block in blocks))
    speed = float(pace)
    assert noise[-1] == pytest.approx(NOISE_SECONDS / speed, abs=2 * TURN)
    for took in (committed[0], committed[1] - committed[0]):
        assert SHORTEST_SECONDS / speed - 2 * TURN <= took <= LONGEST_SECONDS / speed + 2 * TURN
    assert session.chat.turns[0].answer.status == "done"


def test_what_was_computed_is_there_when_one_stops(qtbot: QtBot, open_paced: Open, fake: FakeEngine) -> None:
    fake.blocks = 3
    window = open_paced()
    ask(qtbot, window)
    [turn] = window.context.session.chat.turns
    assert turn.answer.figures.steps == 0
    qtbot.keyClick(window.pages.chat().page.composer.edit, Qt.Key.Key_Escape)
    assert (turn.answer.status, turn.answer.figures.steps) == ("done", 3 * fake.steps)
    view = window.pages.chat().page.turns[0].answer
    assert view.text.isVisible()
    assert turn.answer.trace is not None
    assert len(turn.answer.trace.steps) == 3 * fake.steps


def test_what_was_computed_is_kept_when_the_window_closes(qtbot: QtBot, open_paced: Open) -> None:
    window = open_paced()
    ask(qtbot, window)
    [turn] = window.context.session.chat.turns
    window.close()
    window.context.close()
    assert turn.answer.status == "done"
    assert turn.answer.text


def test_the_inspector_sees_no_more_of_a_run_than_the_chat(
    qtbot: QtBot, open_paced: Open, fake: FakeEngine, hands: Hands
) -> None:
    fake.steps = 3
    window = open_paced()
    ask(qtbot, window)
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer, 0)
    page = window.pages.inspector().page
    answer = window.context.session.chat.turns[0].answer
    accepted = set()
    for _ in turned(window, hands, lambda: window.context.session.active is not None):
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
