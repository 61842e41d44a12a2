"""The Sudoku page with a stand-in engine and no window: solving, stopping, next steps, adapters, a race."""

from __future__ import annotations

import gettext

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.session.model_slot import ModelChoice
from app.state.sudoku.board import Board
from app.state.sudoku.solve_frame import POSITIONS
from app.sudoku.board.column import OPEN_FOLDER
from app.sudoku.controller import race_models
from app.sudoku.page import SudokuPage
from app.sudoku.words import SAMPLE
from app.system.i18n import use
from engine import BASE, MINI
from engine import SUDOKU as MODEL
from engine.tasks import sudoku
from tests.app.marked import Brackets, unmarked
from tests.app.sudoku.solver_engine import SolverEngine

from .conftest import Open, idle


def test_one_click_solves_what_is_there_at_first_sight(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL, seed=7)
    one = opened.page
    assert one.puzzle.cells == SAMPLE
    assert one.column.check.text() == "One solution, 30 givens: medium."
    assert not one.scrub.play.isEnabled()
    one.column.solve.click()
    idle(qtbot, opened)
    assert one.column.verdict.text().startswith("Solved: the puzzle's only solution. 4 steps, ")
    assert one.column.run_facts.text() == "Safelight Sudoku, seed 7"
    assert fake.prompts[-1] == [{"role": "user", "content": sudoku.to_prompt(SAMPLE)}]
    assert fake.seeds == [7]
    assert fake.configs[-1].top_k >= 10
    assert fake.configs[-1].pinned == ()
    assert one.board.frame.verdict is not None
    opened.actions.run("sudoku-keep")
    assert one.keeps_givens
    one.column.solve.click()
    idle(qtbot, opened)
    givens = tuple((POSITIONS[cell], int(given) + 2) for cell, given in enumerate(SAMPLE) if given != "0")
    assert fake.configs[-1].pinned == givens
    assert one.column.run_facts.text().endswith(", given digits kept")


def test_a_run_is_shown_step_by_step_and_scrubbed_afterwards(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine
) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page
    fake.hold, fake.steps = True, 5
    one.column.solve.click()
    qtbot.waitUntil(lambda: one.board.frame is not None)
    assert one.column.stop.isVisible()
    assert not one.column.solve.isVisible()
    assert opened.context.reason_to_wait() == "A puzzle is being solved; Esc stops it"
    for step in range(1, 4):
        fake.gate.release()
        qtbot.waitUntil(lambda step=step: one.board.frame.steps == step)  # type: ignore[misc]
    assert not one.column.inspect.isVisible()
    fake.gate.release(10)
    idle(qtbot, opened)
    assert (one.scrub.frames, one.scrub.words.text()) == (7, "Settled")
    one.scrub.slider.setValue(2)
    assert (one.board.frame.steps, one.board.frame.verdict) == (2, None)
    assert one.column.verdict.text().startswith("Solved")  # it belongs to the run, not to the frame
    qtbot.keyClick(one.scrub.slider, Qt.Key.Key_Left)
    assert one.scrub.words.text() == "Step 1 of 5"
    one.scrub.step(-1)
    assert one.scrub.words.text() == "Noise"
    qtbot.keyClick(one.scrub.slider, Qt.Key.Key_Space)
    assert one.scrub.is_playing
    qtbot.waitUntil(lambda: not one.scrub.is_playing)
    assert one.board.frame.verdict is not None


def test_stop_is_skip_while_a_computed_run_is_shown(qtbot: QtBot, open_sudoku: Open) -> None:
    opened = open_sudoku(MODEL)
    one, pacing = opened.page, opened.context.backend.pacing
    assert one.column.stop.text() == "Stop"
    pacing.set_speed(0.001)
    one.column.solve.click()
    qtbot.waitUntil(lambda: pacing.is_computed)
    assert one.column.stop.text() == "Skip"
    assert opened.context.reason_to_wait() == "A puzzle is still being shown; Esc skips to its end"
    one.column.stop.click()
    idle(qtbot, opened)
    assert one.column.verdict.text().startswith("Solved")
    assert one.column.stop.text() == "Stop"


def test_typing_takes_the_board_back(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page
    one.column.solve.click()
    idle(qtbot, opened)
    one.board.selected = 2
    qtbot.keyClick(one.board, Qt.Key.Key_4)
    assert one.board.frame is None
    assert one.puzzle[2] == "4"
    fake.hold = True
    one.column.solve.click()
    qtbot.keyClick(one.board, Qt.Key.Key_9)  # a run in progress is not disturbed
    assert one.puzzle[2] == "4"
    fake.gate.release(10)
    idle(qtbot, opened)
    for made, cells in ((one.column.undo, SAMPLE), (one.column.redo, f"{SAMPLE[:2]}4{SAMPLE[3:]}")):
        made.click()
        assert one.puzzle.cells == cells
    one.column.clear.click()
    assert one.puzzle.is_empty


def test_what_is_no_puzzle_is_not_run(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page
    one.board.set_puzzle(Board("55" + "0" * 79))
    qtbot.waitUntil(lambda: one.column.check.text() == "5 is twice in row 1: clear one of them.")
    assert not one.column.solve.isEnabled()
    opened.controller.solve()
    assert not opened.controller.is_busy
    assert fake.prompts == []


def test_where_the_model_cannot_write_a_board_the_small_ones_are_offered_and_solve_it(
    qtbot: QtBot, open_sudoku: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SolverEngine, "sibling", lambda _self: SolverEngine())
    opened = open_sudoku(MINI)
    column = opened.page.column
    assert column.reason.text().startswith("Safelight Mini cannot write a board: ")
    assert not column.solve.isEnabled()
    column.load.click()
    assert column.reason.text().startswith("Loading Small models: ")
    qtbot.waitUntil(column.solve.isEnabled)
    assert not column.load.isVisible()
    column.solve.click()
    idle(qtbot, opened)
    assert column.verdict.text().startswith("Solved")
    assert column.run_facts.text().startswith("Safelight Sudoku, seed ")


def test_an_adapter_is_put_on_and_taken_off(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_sudoku(MODEL)
    chooser = opened.page.column.adapter
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "my-adapter")
    chooser.activated.emit(chooser.findData(OPEN_FOLDER))
    idle(qtbot, opened)
    assert opened.context.model.adapter == "my-adapter"
    assert chooser.currentData() == "my-adapter"
    opened.controller.solve()
    idle(qtbot, opened)
    assert "with the my-adapter adapter, seed " in opened.page.column.run_facts.text()
    chooser.activated.emit(0)
    idle(qtbot, opened)
    assert opened.context.model.adapter is None
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "bad")
    chooser.activated.emit(chooser.findData(OPEN_FOLDER))
    idle(qtbot, opened)
    assert opened.said[-1].startswith("bad is not an adapter's folder")
    assert chooser.currentData() == ""
    assert fake.adapters == ["my-adapter", None]
    slot, shown = opened.context.slot, list[str | None]()
    slot.changed.connect(lambda: shown.append(slot.model and slot.model.adapter))
    slot.set_adapter("my-adapter")
    slot.set_adapter("other-adapter")
    qtbot.waitUntil(lambda: shown == ["my-adapter", "other-adapter"])  # none is skipped


def test_after_a_failure_the_page_goes_on_and_after_a_wrong_answer_another_seed_is_a_click_away(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine
) -> None:
    opened = open_sudoku(MODEL, seed=7)
    column = opened.page.column
    fake.fail_at = 2
    column.solve.click()
    idle(qtbot, opened)
    assert opened.said[-1].startswith("Something went wrong: the graphics card fell out.")
    assert column.verdict.text() == opened.said[-1]
    fake.fail_at, fake.wrong = None, (2, 3)
    assert not column.again.isVisible()
    column.solve.click()
    idle(qtbot, opened)
    assert column.again.isVisible()
    column.again.click()
    idle(qtbot, opened)
    assert fake.seeds == [7, 7, 8]
    assert column.run_facts.text() == "Safelight Sudoku, seed 8"
    fake.wrong = ()
    column.again.click()
    idle(qtbot, opened)
    assert column.verdict.text().startswith("Solved")
    assert not column.again.isVisible()


def test_a_race_is_asked_for_with_the_puzzle_and_two_models(open_sudoku: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_sudoku(MODEL)
    opened.page.column.race.click()
    asked = opened.context.navigator.calls
    assert asked == [("start_race", sudoku.to_prompt(SAMPLE), (ModelChoice(BASE), ModelChoice(BASE, "sudoku-lora")))]
    monkeypatch.setattr("app.sudoku.controller.adapters_for", lambda _model: ())
    assert race_models() == (ModelChoice(BASE), ModelChoice(MODEL))
    opened.page.board.set_puzzle(Board("0" * 81))
    opened.controller.race()
    assert len(asked) == 1


def test_every_string_is_translated(qtbot: QtBot) -> None:
    use(Brackets())
    try:
        page = SudokuPage()
        qtbot.addWidget(page)
        found = unmarked(page)
    finally:
        use(gettext.NullTranslations())
    assert found == []
