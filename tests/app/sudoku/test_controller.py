"""The Sudoku page with a stand-in engine and no window: solving, stopping, two contenders, adapters, the batch."""

from __future__ import annotations

import gettext

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.state.run.pace import FULL_SPEED
from app.state.sudoku.board import Board
from app.state.sudoku.scores import Request
from app.sudoku.board.column import OPEN_FOLDER
from app.sudoku.contenders import Contender, contenders, usual_pair
from app.sudoku.page import SudokuPage
from app.sudoku.words import SAMPLE
from app.system.i18n import use
from engine import BASE, SKILLS
from engine import SUDOKU as MODEL
from engine.tasks import sudoku
from tests.app.marked import Brackets, unmarked
from tests.app.sudoku.solver_engine import POSITIONS, SolverEngine

from .conftest import RUN_MS, Open, idle

# ---------------------------------------------------------------------------------------------------------- one puzzle


def test_one_click_solves_what_stands_there_at_first_sight(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL, seed=7)
    one = opened.page.one
    assert one.puzzle.cells == SAMPLE
    assert one.column.check.text() == "One solution, 30 givens: medium."
    assert not one.scrub.play.isEnabled()
    one.column.solve.click()
    idle(qtbot, opened)
    assert one.column.verdict.text().startswith("Solved: the puzzle's only solution. 4 steps, ")
    assert one.column.run_facts.text() == "Safelight Sudoku, seed 7"
    assert [value.text() for value in one.column.figures.values] == ["4", "0.50 nats", "81 of 81"]
    assert fake.prompts[-1] == [{"role": "user", "content": sudoku.to_prompt(SAMPLE)}]
    assert fake.seeds == [7]
    assert fake.configs[-1].top_k >= 10
    assert fake.configs[-1].pinned == ()
    assert one.board.frame is not None
    assert one.board.frame.verdict is not None


def test_a_run_is_shown_step_by_step_and_scrubbed_afterwards(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine
) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page.one
    fake.hold, fake.steps = True, 5
    one.column.solve.click()
    qtbot.waitUntil(lambda: one.board.frame is not None)
    assert one.column.stop.isVisible()
    assert not one.column.solve.isVisible()
    assert opened.context.reason_to_wait() == "A puzzle is being solved; Esc stops it"
    for step in range(1, 4):
        fake.gate.release()
        qtbot.waitUntil(lambda step=step: one.board.frame.steps == step)  # type: ignore[misc]
        assert one.column.figures.values[0].text() == str(step)
    assert not one.column.inspect.isVisible()
    fake.gate.release(10)
    idle(qtbot, opened)
    assert one.scrub.frames == 7
    assert one.scrub.words.text() == "Finished after 5 steps"
    one.scrub.slider.setValue(2)
    assert one.board.frame is not None
    assert one.board.frame.steps == 2
    assert one.board.frame.verdict is None
    assert one.column.verdict.text().startswith("Solved")  # it belongs to the run, not to the frame
    qtbot.keyClick(one.scrub.slider, Qt.Key.Key_Left)
    assert one.scrub.words.text() == "After 1 of 5 steps"
    one.scrub.step(-1)
    assert one.scrub.words.text() == "Noise, before the first step"
    assert one.column.figures.values[0].text() == "–"
    one.scrub.slider.setFocus()
    qtbot.keyClick(one.scrub.slider, Qt.Key.Key_Space)
    assert one.scrub.is_playing
    qtbot.waitUntil(lambda: not one.scrub.is_playing)
    assert one.board.frame.verdict is not None


def test_the_pace_holds_each_step_in_view(qtbot: QtBot, open_sudoku: Open) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page.one
    opened.context.values.speed = 2
    opened.context.apply_values()
    seen: list[int] = []
    one.run.shown.connect(lambda: seen.append(one.run.frame.steps if one.run.frame is not None else -1))
    one.column.solve.click()
    idle(qtbot, opened)
    assert {1, 2, 3, 4} <= set(seen)


def test_stop_is_skip_while_a_computed_run_is_shown(qtbot: QtBot, open_sudoku: Open) -> None:
    opened = open_sudoku(MODEL)
    one, pacing = opened.page.one, opened.context.backend.pacing
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


def test_side_by_side_stop_skips_the_last_run_alone(qtbot: QtBot, open_sudoku: Open) -> None:
    opened = open_sudoku(MODEL)
    beside, pacing = opened.page.side_by_side, opened.context.backend.pacing
    opened.actions.run("sudoku-beside")
    for side in (beside.left, beside.right):
        side.offer([], Contender(MODEL))
    pacing.set_speed(0.001)
    beside.solve.click()
    for said in ("Stop", "Skip"):  # the first one's end is not the other's
        qtbot.waitUntil(lambda: pacing.is_computed)
        assert beside.stop.text() == said
        pacing.set_speed(FULL_SPEED)
        pacing.set_speed(0.001)
    idle(qtbot, opened)


def test_typing_takes_the_board_back(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page.one
    one.column.solve.click()
    idle(qtbot, opened)
    one.board.selected = 2
    qtbot.keyClick(one.board, Qt.Key.Key_4)
    assert one.board.frame is None
    assert one.puzzle[2] == "4"
    fake.hold = True
    one.column.solve.click()
    qtbot.keyClick(one.board, Qt.Key.Key_9)  # a run under way is not disturbed
    assert one.puzzle[2] == "4"
    fake.gate.release(10)
    idle(qtbot, opened)
    one.column.undo.click()
    assert one.puzzle.cells == SAMPLE
    one.column.redo.click()
    assert one.puzzle[2] == "4"
    one.column.clear.click()
    assert one.puzzle.is_empty


def test_clamped_givens_are_pinned_where_they_stand(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL)
    page = opened.page
    opened.actions.run("sudoku-clamp")
    assert page.clamp
    assert page.side_by_side.clamp.isChecked()
    page.one.column.solve.click()
    idle(qtbot, opened)
    expected = tuple((POSITIONS[cell], int(given) + 2) for cell, given in enumerate(SAMPLE) if given != "0")
    assert fake.configs[-1].pinned == expected
    assert page.one.column.run_facts.text().endswith(", givens clamped")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("0" * 81, "Type or paste a puzzle, or generate one."),
        ("55" + "0" * 79, "5 stands twice in row 1: clear one of them."),
    ],
)
def test_what_is_no_puzzle_is_not_run(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine, cells: str, said: str
) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page.one
    one.board.set_puzzle(Board(cells))
    qtbot.waitUntil(lambda: one.column.check.text() == said)
    assert not one.column.solve.isEnabled()
    opened.controller.solve()
    opened.controller.solve_both()
    assert not opened.controller.is_busy
    assert fake.prompts == []


def test_a_puzzle_with_many_solutions_runs_and_is_told_so(qtbot: QtBot, open_sudoku: Open) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page.one
    one.board.set_puzzle(Board(SAMPLE[:40] + "0" * 41))
    one.column.solve.click()
    idle(qtbot, opened)
    assert one.column.verdict.text().startswith("Valid: one of several solutions.")


def test_wrong_cells_are_told(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    fake.wrong = (2, 3)
    opened = open_sudoku(MODEL)
    one = opened.page.one
    one.column.solve.click()
    idle(qtbot, opened)
    assert one.column.verdict.text().startswith("Not solved: 2 of 51 blanks wrong.")


def test_a_failure_is_one_sentence_and_the_page_goes_on(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL)
    one = opened.page.one
    fake.fail_at = 2
    one.column.solve.click()
    idle(qtbot, opened)
    assert opened.said[-1].startswith("Something went wrong: the graphics card fell out.")
    assert one.column.verdict.text() == opened.said[-1]
    fake.fail_at = None
    one.column.solve.click()
    idle(qtbot, opened)
    assert one.column.verdict.text().startswith("Solved")


# ---------------------------------------------------------------------------------------------------------- models


def test_a_model_that_cannot_write_a_board_is_replaced_by_one_click(qtbot: QtBot, open_sudoku: Open) -> None:
    opened = open_sudoku(SKILLS)
    one = opened.page.one
    assert one.column.reason.text() == (
        "Safelight Skills cannot write a board: its canvas holds 64 tokens, and a board takes 90."
    )
    assert one.column.solve.text() == "Load Safelight Sudoku and solve"
    one.column.solve.click()
    assert one.column.reason.text().startswith("Loading Safelight Sudoku: ")
    idle(qtbot, opened)
    assert opened.context.model is not None
    assert opened.context.model.path_or_id == MODEL
    assert one.column.verdict.text().startswith("Solved")
    assert one.column.solve.text() == "Solve"


def test_without_any_model_one_click_is_enough_too(qtbot: QtBot, open_sudoku: Open) -> None:
    opened = open_sudoku(None)
    one = opened.page.one
    one.column.solve.click()
    idle(qtbot, opened)
    assert one.column.verdict.text().startswith("Solved")


def test_another_model_of_the_users_choice_ends_what_is_under_way(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine
) -> None:
    opened = open_sudoku(MODEL)
    page = opened.page
    page.side_by_side.left.offer([Contender(MODEL), Contender("other")], Contender(MODEL))
    page.side_by_side.right.offer([Contender(MODEL), Contender("other")], Contender("other"))
    fake.hold = True
    page.side_by_side.solve.click()
    fake.gate.release()
    qtbot.waitUntil(
        lambda: page.side_by_side.left.run.frame is not None and page.side_by_side.left.run.frame.steps == 1
    )
    opened.context.load(SKILLS)
    fake.gate.release(5)
    qtbot.waitUntil(lambda: opened.context.model is not None)
    assert not opened.controller.is_busy
    assert fake.loads == [MODEL, SKILLS]
    assert page.side_by_side.left.result.text().startswith("Stopped before the end.")
    assert page.side_by_side.right.result.text() == ""


def test_an_adapter_is_put_on_and_taken_off(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_sudoku(MODEL)
    chooser = opened.page.one.column.adapter
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "my-adapter")
    chooser.activated.emit(chooser.findData(OPEN_FOLDER))
    idle(qtbot, opened)
    assert opened.context.model is not None
    assert opened.context.model.adapter == "my-adapter"
    assert chooser.currentData() == "my-adapter"
    opened.controller.solve()
    idle(qtbot, opened)
    facts = opened.page.one.column.run_facts.text()
    assert facts.startswith("Safelight Sudoku with the my-adapter adapter, seed ")
    chooser.activated.emit(0)
    idle(qtbot, opened)
    assert opened.context.model.adapter is None
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "bad")
    chooser.activated.emit(chooser.findData(OPEN_FOLDER))
    idle(qtbot, opened)
    assert opened.said[-1].startswith("bad is not an adapter's folder")
    assert chooser.currentData() == ""
    assert fake.adapters == ["my-adapter", None]


# ---------------------------------------------------------------------------------------------------------- two


def test_two_contenders_take_turns_and_are_scrubbed_together(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine
) -> None:
    opened = open_sudoku(MODEL, seed=11)
    page = opened.page
    beside = page.side_by_side
    opened.actions.run("sudoku-beside")
    assert beside.isVisible()
    fake.steps_of = {"plain": 9, "tuned": 3}
    beside.left.offer([], Contender("plain"))
    beside.right.offer([], Contender("plain", "lora"))
    opened.actions.run("sudoku-both")
    assert beside.right.result.text() == "Waits for its turn"
    idle(qtbot, opened)
    assert fake.loads == [MODEL, "plain"]
    assert fake.adapters == ["lora"]
    assert fake.seeds == [11, 11]
    assert "9 steps" in beside.left.result.text()
    assert beside.right.result.text().startswith("Solved")
    assert beside.scrub.frames == 11
    beside.right.offer([], Contender("tuned"))
    beside.solve.click()
    idle(qtbot, opened)
    assert fake.adapters == ["lora", None]  # the left one is without
    beside.scrub.slider.setValue(7)
    assert beside.left.run.player.place == 7
    assert beside.right.run.player.place == 4  # its end
    assert beside.left.result.text() == "After 7 steps: 67 of 81 accepted"
    assert beside.right.result.text().startswith("Solved")
    beside.scrub.slider.setValue(2)
    assert beside.right.run.player.place == 2
    page.one.new_puzzle("easy")
    opened.controller.refresh()
    assert beside.left.run.trace is None
    assert beside.left.board.board == page.one.puzzle


def test_one_contender_twice_has_two_seeds(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL, seed=4)
    beside = opened.page.side_by_side
    for side in beside.sides:
        side.offer([], Contender(MODEL))
    beside.solve.click()
    idle(qtbot, opened)
    assert fake.seeds == [4, 5]


@pytest.mark.parametrize("broken", [Contender("missing"), Contender(MODEL, "bad")])
def test_a_contender_that_cannot_be_had_ends_the_pair(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine, broken: Contender
) -> None:
    opened = open_sudoku(MODEL)
    beside = opened.page.side_by_side
    opened.controller.show("beside")
    beside.left.offer([], broken)
    beside.right.offer([], Contender(MODEL))
    beside.solve.click()
    idle(qtbot, opened)
    assert opened.said
    assert [side.result.text() for side in beside.sides] == ["", ""]
    assert fake.prompts == []
    assert not any(side.run.is_live for side in beside.sides)


def test_whom_one_can_choose_from() -> None:
    offered = contenders(["/models/mine"], ["/adapters/own"])
    assert Contender(MODEL) in offered
    assert Contender("/models/mine", "/adapters/own") in offered
    assert not any(one.model == SKILLS for one in offered)
    assert usual_pair([Contender(BASE), Contender(BASE, "sudoku-lora")]) == (
        Contender(BASE),
        Contender(BASE, "sudoku-lora"),
    )
    assert usual_pair([Contender(MODEL)]) == (Contender(MODEL), Contender(MODEL))
    assert Contender("/models/mine", "sudoku-lora").title == "mine with Sudoku adapter"


# ---------------------------------------------------------------------------------------------------------- the batch


def test_a_batch_is_run_at_full_speed_and_counted(qtbot: QtBot, open_sudoku: Open, fake: SolverEngine) -> None:
    opened = open_sudoku(MODEL)
    scores = opened.page.scores
    opened.context.values.speed = 0.001
    opened.context.apply_values()
    opened.controller.show("scores")
    scores.run_asked.emit(Request(("easy", "medium"), 2, 3))
    idle(qtbot, opened)
    assert [(row.bin, row.solved, row.count) for row in scores.scores.rows()] == [
        ("easy", 2, 2),
        ("medium", 2, 2),
        ("all", 4, 4),
    ]
    assert scores.scores.contenders == ["Safelight Sudoku"]
    assert scores.scores.results[0].steps == 4
    assert set(fake.seeds) == {3}
    assert opened.page.one.run.trace is None


def test_puzzles_that_are_made_before_they_are_needed_are_run(
    qtbot: QtBot, open_sudoku: Open, fake: SolverEngine
) -> None:
    opened = open_sudoku(MODEL)
    batch, scores = opened.controller.batch, opened.page.scores
    fake.hold = True
    scores.run_asked.emit(Request(("easy",), 3, 3))
    for run in range(3):
        qtbot.waitUntil(lambda run=run: len(fake.prompts) == run + 1, timeout=RUN_MS)  # type: ignore[misc]
        qtbot.waitUntil(lambda: batch.puzzles.is_ready, timeout=RUN_MS)
        fake.gate.release(fake.steps)
    idle(qtbot, opened)
    assert len(scores.scores) == 3


# ---------------------------------------------------------------------------------------------------------- the rest


def test_every_string_is_translated(qtbot: QtBot) -> None:
    use(Brackets())
    try:
        page = SudokuPage()
        qtbot.addWidget(page)
        page.side_by_side.offer([Contender(MODEL)])
        found = [text for part in (page.one, page.side_by_side) for text in unmarked(part, ("Safelight Sudoku",))]
        found += [text for place in range(3) if not (text := page.tabs.tabText(place)).startswith("⟦")]
    finally:
        use(gettext.NullTranslations())
    assert found == []


@pytest.mark.parametrize("size", [(1280, 800), (640, 520), (420, 520)])
def test_nothing_is_cut_off_at_any_width(qtbot: QtBot, size: tuple[int, int]) -> None:
    page = SudokuPage()
    qtbot.addWidget(page)
    page.resize(*size)
    page.show()
    one = page.one
    column = one.column
    qtbot.waitUntil(lambda: min(one.board.width(), one.board.height()) >= 280)  # once it is laid out
    assert column.solve.mapTo(page, column.solve.rect().topRight()).x() <= page.width()
    for upper, lower in ((one.board, one.scrub), (one.scrub, one.legend)):
        assert upper.mapTo(page, upper.rect().bottomLeft()).y() <= lower.mapTo(page, lower.rect().topLeft()).y()
    page.show_part("beside")
    for side in page.side_by_side.sides:
        assert side.board.mapTo(page, side.board.rect().bottomLeft()).y() <= (
            side.result.mapTo(page, side.result.rect().topLeft()).y()
        )
