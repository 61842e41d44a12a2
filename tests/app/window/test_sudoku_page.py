"""The Sudoku page in the window, with a stand-in engine: keys, and the way there from other pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import CHAT, SUDOKU, ModelChoice
from app.state.race.lanes import LaneSpec
from app.sudoku.page import SudokuPage
from app.sudoku.words import SAMPLE
from app.window.main_window import MainWindow
from engine import BASE, SKILLS
from engine import SUDOKU as MODEL
from engine.tasks import sudoku
from tests.app.sudoku.solver_engine import SolverEngine

Open = Callable[..., MainWindow]
RUN_MS = 60_000


@pytest.fixture
def fake() -> SolverEngine:
    return SolverEngine()


def sudoku_page(window: MainWindow) -> SudokuPage:
    window.show_page(SUDOKU)
    return window.pages["sudoku"].page


def idle(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: not window.context.is_busy, timeout=RUN_MS)


def test_esc_stops_within_a_step_and_the_puzzle_is_still_there(
    qtbot: QtBot, open_window: Open, fake: SolverEngine
) -> None:
    window = open_window(MODEL)
    one = sudoku_page(window)
    fake.hold, fake.steps = True, 40
    window.actions_by_name.run("sudoku-solve")
    fake.gate.release(2)
    qtbot.waitUntil(lambda: one.board.frame is not None and one.board.frame.steps == 2)
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    fake.gate.release(1)
    idle(qtbot, window)
    assert one.column.verdict.text().startswith("Stopped before the end. 2 steps, ")
    one.column.back.click()
    assert one.board.frame is None
    assert one.puzzle.cells == SAMPLE
    assert not one.column.back.isVisible()
    assert not one.column.verdict.isVisible()
    assert not one.scrub.play.isEnabled()


def test_race_this_starts_a_race_of_two_models(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(SKILLS)
    race, page = window.pages.race(), sudoku_page(window)
    page.column.race.click()
    assert window.pages.current is race
    assert race.is_busy
    idle(qtbot, window)
    assert race.page.one.shown is not None
    assert race.page.one.shown.run.request.messages[-1]["content"] == sudoku.to_prompt(SAMPLE)
    assert race.lanes.specs == (LaneSpec(BASE), LaneSpec(BASE, adapter="sudoku-lora"))
    assert window.context.choice == ModelChoice(SKILLS)  # the chat's own, which a race leaves alone


def test_every_action_has_a_name_and_goes_to_the_page(open_window: Open) -> None:
    window = open_window(MODEL)
    page = window.pages["sudoku"].page
    for bin, least, most in (("easy", 40, 50), ("medium", 30, 39), ("hard", 25, 29)):
        window.show_page(CHAT)
        assert window.actions_by_name.run(f"sudoku-{bin}") == ""
        assert page.isVisible()
        assert least <= page.puzzle.givens <= most
        assert page.check.kind == "one"
