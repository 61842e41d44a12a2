"""The small models as one in the real window, without Talk: chat, Sudoku, decisions and inspector, loaded once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.context import DECISIONS, SUDOKU
from app.decisions.controller import DecisionsController
from app.sudoku.controller import SudokuController
from app.window.main_window import MainWindow
from engine import BASE, GAPS, MINI, SIGHT
from engine import SUDOKU as PUZZLES
from engine.catalog import SMALL
from engine.tasks.drawings import picture_of
from tests.drawn import DRAWN

RUN_MS = 120_000
PUZZLE = "003100064080000302000500087070005000000009400805000000004000030050007000700801096"


@pytest.fixture
def window(window_with: Callable[[str], MainWindow]) -> MainWindow:
    return window_with(SMALL)


def ask(qtbot: QtBot, window: MainWindow, text: str) -> tuple[str, str]:
    """Types a prompt; returns the part that answered, and its answer."""
    session, edit = window.context.session, window.pages.chat().page.composer.edit
    count = len(session.chat.turns)
    edit.setPlainText(text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: len(session.chat.turns) > count and session.active is None, timeout=RUN_MS)
    answer = session.chat.turns[-1].answer
    return answer.model, answer.text.replace("\n", " ").strip()


def test_each_prompt_is_answered_by_its_part(qtbot: QtBot, window: MainWindow) -> None:
    model, composer = window.context.model, window.pages.chat().page.composer
    assert model is not None
    assert ask(qtbot, window, "what's 12+7?") == (MINI, "19")
    assert ask(qtbot, window, "Monday, [[...]], Wednesday.") == (GAPS, "Monday, Tuesday, Wednesday.")
    question, scene = next(iter(DRAWN.items()))
    composer.pictures.add([QImage.fromData(picture_of(scene).data)])
    qtbot.waitUntil(lambda: not composer.pictures.is_reading)
    assert ask(qtbot, window, question)[0] == SIGHT
    assert ask(qtbot, window, "What shape is blue?")[0] == SIGHT  # of the drawing before
    assert ask(qtbot, window, f"Solve this Sudoku:\n{PUZZLE}")[0] == PUZZLES
    assert window.pages.chat().page.turns[-1].answer.board.is_on
    assert window.pages.chat().page.turns[0].answer.model is model.part(MINI)  # which reads its canvas
    assert window.context.model is model


def test_the_other_pages_take_their_parts(qtbot: QtBot, window: MainWindow) -> None:
    context = window.context
    model = context.model
    window.show_page(SUDOKU)
    sudoku = window.pages[SUDOKU]
    assert isinstance(sudoku, SudokuController)
    sudoku.page.column.solve.click()
    qtbot.waitUntil(lambda: not sudoku.is_busy, timeout=RUN_MS)
    assert sudoku.page.column.verdict.text().startswith("Solved")
    window.show_page(DECISIONS)
    decisions = window.pages[DECISIONS]
    assert isinstance(decisions, DecisionsController)
    one = decisions.page
    assert (one.message.text(), one.load.isVisible()) == ("", False)
    one.decide.click()
    qtbot.waitUntil(lambda: not decisions.is_busy, timeout=RUN_MS)
    assert all(card.answer is not None for card in one.questions.cards)
    assert context.model is model


def test_a_run_of_a_part_goes_on_and_after_another_model_the_small_ones_are_loaded_for_it(
    qtbot: QtBot, window: MainWindow
) -> None:
    context = window.context
    assert ask(qtbot, window, "Spell banana.")[0] == MINI
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer, 0)
    inspector = window.pages.inspector()
    first = inspector.page.player.trace
    assert first is not None
    assert inspector.continuations.refusal("forks") == ""
    view = inspector.page.change.influence
    inspector.page.player.go(2)
    view.asked.emit(1, 20)
    qtbot.waitUntil(lambda: view.influence is not None, timeout=RUN_MS)
    for opinion in range(2):
        if opinion:
            context.load(BASE)
            qtbot.waitUntil(lambda: context.model is not None, timeout=RUN_MS)
            needed = inspector.continuations.needed()
            assert needed is not None
            assert needed.path_or_id == SMALL
        with qtbot.waitSignal(inspector.continuations.opined, timeout=RUN_MS):
            inspector.page.change.opinion.asked.emit()
        qtbot.waitUntil(lambda: not context.is_busy, timeout=RUN_MS)
    assert context.slot.present == SMALL
    inspector.forks.seed.setValue(8)
    inspector.forks.run.click()
    qtbot.waitUntil(
        lambda: not inspector.continuations.is_forking and inspector.page.player.trace is not first, timeout=RUN_MS
    )
    forked = inspector.page.player.trace
    assert forked is not None
    assert forked.header.model.name == MINI
