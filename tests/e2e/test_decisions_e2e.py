"""The Decisions page in the real window with the real embedded model: a state, a table, its calibration, files."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import DECISIONS
from app.decisions.controller import DecisionsController
from app.state.decisions.samples import SAMPLES
from app.window.main_window import MainWindow
from engine import SKILLS

RUN_MS = 180_000
ROWS = 200


@pytest.fixture
def window(window_with: Callable[[str], MainWindow]) -> MainWindow:
    window = window_with(SKILLS)
    window.show_page(DECISIONS)
    return window


@pytest.fixture
def page(window: MainWindow) -> DecisionsController:
    found = window.pages[DECISIONS]
    assert isinstance(found, DecisionsController)
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Who has more coins, with right answers."""
    path = tmp_path / "coins.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("state", "more", "id"))
        for row in range(ROWS):
            ann, ben = row % 29 + 1, row * 7 % 31 + 31
            names = ("Ann", "Ben") if row % 2 else ("Ben", "Ann")
            writer.writerow((f"{names[0]} has {ann} coins. {names[1]} has {ben} coins.", names[1], row))
    return path


def idle(qtbot: QtBot, page: DecisionsController) -> None:
    qtbot.waitUntil(lambda: not page.is_busy, timeout=RUN_MS)


def test_a_state_is_decided_singly_jointly_and_inspected(
    qtbot: QtBot, window: MainWindow, page: DecisionsController
) -> None:
    one = page.page.one
    assert one.column.state.toPlainText() == SAMPLES[0].state
    one.column.repeats.setValue(2)
    qtbot.keyClick(one.column.state, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    idle(qtbot, page)
    (card,) = one.questions.cards
    answer = card.bars.answer
    assert answer is not None
    assert sum(answer.probabilities) == pytest.approx(1.0)
    assert card.facts.text() != ""
    assert list(one.strip.canvas.slots) == [0]  # a single question's is the first token
    assert one.strip.canvas.block is not None
    assert one.strip.canvas.block.length == 16
    one.column.temperature.setValue(20.0)
    told = card.bars.answer
    assert told is not None
    assert max(told.probabilities) <= max(answer.probabilities)
    assert not page.is_busy  # nothing is read again
    one.column.temperature.setValue(1.0)

    one.column.example_chosen.emit(1)
    assert card.bars.answer is None
    one.decide.click()
    idle(qtbot, page)
    assert [card.bars.answer is not None for card in one.questions.cards] == [True] * 3
    assert sorted(one.strip.canvas.slots.values()) == [1, 2, 3]
    first = [card.bars.answer for card in one.questions.cards]
    place = next(position for position, number in one.strip.canvas.slots.items() if number == 2)
    one.strip.canvas.selected = place
    assert [bool(card.property("chosen")) for card in one.questions.cards] == [False, True, False]
    one.decide.click()
    idle(qtbot, page)
    assert [card.bars.answer for card in one.questions.cards] == first  # same request, same answer

    one.strip.inspect.click()
    inspector = window.pages.inspector().page
    assert window.pages.stack.currentWidget() is inspector
    assert inspector.player.trace is not None
    assert len(inspector.player.trace.header.slots) == 3
    window.show_page(DECISIONS)

    sheet = one.questions.sheet
    one.questions.show_sheet(sheet.changed(1, sheet.questions[1].as_kind("choice")))
    one.decide.click()
    assert not page.is_busy
    assert one.questions.cards[1].editor is not None
    assert not one.questions.cards[1].editor.problem.isHidden()


def test_a_table_is_decided_sorted_calibrated_and_written(
    qtbot: QtBot, window: MainWindow, page: DecisionsController, table: Path, tmp_path: Path
) -> None:
    view, rows = page.page.table, page.rows
    page.page.one.column.repeats.setValue(0)
    page.show("table")
    view.opened.emit(table)
    qtbot.waitUntil(lambda: rows.table is not None)
    assert view.wanted == "state"
    view.about.setCurrentText("missing")
    view.run.click()
    qtbot.waitUntil(view.problem.isVisible)
    assert "missing" in view.problem.text()
    assert not page.is_busy

    view.about.setCurrentText("state")
    view.run.click()
    qtbot.waitUntil(lambda: rows.board is not None and rows.board.done > 20, timeout=RUN_MS)
    assert window.context.reason_to_wait() != ""
    assert not view.open.isEnabled()
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    idle(qtbot, page)
    assert rows.board is not None
    stopped = rows.board.done
    assert 20 < stopped < ROWS
    assert rows.board.failed == 0
    assert rows.progress.startswith("Stopped")

    view.run.click()
    qtbot.waitUntil(lambda: rows.board is not None and rows.board.done == ROWS, timeout=RUN_MS)
    idle(qtbot, page)
    right, known = rows.board.accuracy(0)
    assert known == ROWS
    shown = view.rows.rows
    view.rows.horizontalHeader().setSortIndicator(4, Qt.SortOrder.DescendingOrder)
    view.rows.horizontalHeader().sectionClicked.emit(4)
    sure = rows.board.confidence[:, 0]
    best = float(sure.max())
    qtbot.waitUntil(lambda: float(sure[shown.row_at(0)]) == best)
    assert float(sure[shown.row_at(ROWS - 1)]) == float(sure.min())
    view.filter.setCurrentIndex(2)
    view.filter.activated.emit(2)
    qtbot.waitUntil(lambda: shown.rowCount() == ROWS - right)
    view.filter.setCurrentIndex(0)
    view.filter.activated.emit(0)
    qtbot.waitUntil(lambda: shown.rowCount() == ROWS)
    view.rows.choose(0)
    chosen = shown.row_at(0)
    assert view.state.text() == rows.board.states[chosen]
    qtbot.waitUntil(lambda: view.strip.canvas.block is not None and not rows.row.is_busy, timeout=RUN_MS)
    read_again = view.strip._reading
    assert read_again is not None
    assert read_again.answer(0, 1.0) == rows.board.answers(chosen)[0]

    qtbot.waitUntil(lambda: page.fitter.trust is not None)
    trust = page.fitter.trust
    assert trust is not None
    assert trust.after.nll <= trust.before.nll + 0.05
    page.show("calibration")
    page.page.calibration.use.click()
    fitted = page.page.one.questions.sheet.temperature
    assert fitted == pytest.approx(trust.temperature, abs=0.01)
    qtbot.waitUntil(lambda: rows.board is not None and rows.board.temperature == fitted)

    target = tmp_path / "answers.csv"
    with qtbot.waitSignal(rows.written):
        view.written.emit(target)
    with target.open(encoding="utf-8-sig", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == ROWS
    assert {row["more_answer"] for row in found} <= {"Ann", "Ben"}
    assert sum(row["more_answer"] == row["more"] for row in found) == right

    questions = tmp_path / "questions.json"
    before = page.page.one.questions.sheet
    page.save_questions(questions)
    page.page.one.column.example_chosen.emit(2)
    assert page.page.one.questions.sheet != before
    page.open_questions(questions)
    assert page.page.one.questions.sheet == before
    page.open_questions(table)  # it is none
    assert page.page.one.questions.sheet == before
