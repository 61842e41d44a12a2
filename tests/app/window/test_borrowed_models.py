"""The window with models that a page loads for its own work: the chat is always answered by the person's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import CHAT, DECISIONS, SUDOKU, ModelChoice
from app.settings import store
from app.window.main_window import MainWindow
from engine import BASE, DECIDER, SKILLS
from engine import SUDOKU as SUDOKU_MODEL
from tests.app.chat.test_waiting import Slow
from tests.app.sudoku.solver_engine import SolverEngine

Open = Callable[..., MainWindow]
MOST_MS = 60_000


@pytest.fixture
def fake() -> SolverEngine:
    return SolverEngine()


def has(window: MainWindow, path_or_id: str, adapter: str | None = None) -> bool:
    return window.context.choice == ModelChoice(path_or_id, adapter)


def ask(qtbot: QtBot, window: MainWindow, text: str) -> None:
    """Enter a prompt in the chat, which is on top."""
    edit = window.pages.chat().page.composer.edit
    edit.setPlainText(text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


def answerers(window: MainWindow) -> list[tuple[str, str | None]]:
    return [(turn.answer.model, turn.answer.adapter) for turn in window.context.session.chat.turns]


def answered(qtbot: QtBot, window: MainWindow, count: int = 1) -> None:
    session = window.context.session
    qtbot.waitUntil(lambda: len(session.chat.turns) == count and session.active is None, timeout=MOST_MS)


@pytest.mark.parametrize("adapter", [None, "lora"])
def test_a_puzzle_leaves_the_chat_its_own_model(qtbot: QtBot, open_window: Open, adapter: str | None) -> None:
    window = open_window(SKILLS)
    window.show_page(SUDOKU)
    sudoku = window.pages["sudoku"]
    if adapter is not None:
        sudoku._adapt(adapter)  # type: ignore[attr-defined]
        qtbot.waitUntil(lambda: has(window, SKILLS, adapter), timeout=MOST_MS)
    sudoku.solve()  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: not window.context.is_busy, timeout=MOST_MS)
    assert has(window, SUDOKU_MODEL)
    assert store.read_model(window.context.settings) == (SKILLS, adapter)  # which the next start loads
    window.show_page(CHAT)
    ask(qtbot, window, "hello")  # waits for its model
    answered(qtbot, window)
    assert answerers(window) == [(SKILLS, adapter)]


def test_a_run_that_goes_on_behind_the_chat_ends_before_the_model_comes_back(
    qtbot: QtBot, open_window: Open, fake: SolverEngine
) -> None:
    window = open_window(BASE)
    ask(qtbot, window, "hello")
    answered(qtbot, window)
    window.context.load(SKILLS)
    qtbot.waitUntil(lambda: has(window, SKILLS), timeout=MOST_MS)
    window.pages.chat().inspect_last()
    inspector = window.pages.inspector()
    fake.hold = True
    inspector.forks.seed.setValue(8)
    inspector.forks.run.click()
    window.show_page(CHAT)  # while the fork's model loads
    qtbot.waitUntil(lambda: inspector.going_on.is_forking, timeout=MOST_MS)
    assert has(window, BASE)
    hint = window.pages.chat().page.composer.hint
    assert (
        hint.text()
        == "A changed run is being written in the inspector; Esc stops it. Safelight Skills answers here after that"
    )
    ask(qtbot, window, "What is 3 + 4?")
    fake.hold = False
    fake.gate.release(100)
    answered(qtbot, window, 2)
    assert answerers(window) == [(BASE, None), (SKILLS, None)]
    trace = inspector.page.player.trace
    assert trace is not None
    assert trace.header.changes != ()
    assert trace.result is not None
    assert trace.result.reason != "cancelled"


def test_a_prompt_that_is_entered_while_a_page_s_model_loads_goes_to_the_person_s_own(
    qtbot: QtBot, open_window: Open, fake: SolverEngine
) -> None:
    slow = Slow(fake)
    slow.gate.release()
    window = open_window(SKILLS)
    window.show_page(DECISIONS)
    window.context.borrow(DECIDER)
    window.show_page(CHAT)
    ask(qtbot, window, "hello")
    slow.gate.release(100)
    answered(qtbot, window)
    assert answerers(window) == [(SKILLS, None)]
