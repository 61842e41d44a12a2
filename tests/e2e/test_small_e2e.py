"""The small models as one in the real window, without Talk: chat, Sudoku, decisions and inspector, loaded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from pytestqt.qtbot import QtBot

from app.chat.page import ChatPage
from app.context import DECISIONS, SUDOKU
from app.decisions.controller import DecisionsController
from app.sudoku.controller import SudokuController
from app.window.main_window import MainWindow
from engine import BASE, GAPS, MINI, SIGHT
from engine import SUDOKU as PUZZLES
from engine.catalog import SMALL
from engine.tasks import drawings
from tests.e2e.asking import RUN_MS, ask

PUZZLE = "004678912072195348198342567859061423426853791713924856961537284287419635345286170"  # of few steps
SCENE = drawings.Scene(
    (250, 250, 250),
    (
        drawings.DrawnShape("star", "red", drawings.COLOURS["red"], 0.3, 0.3, 0.13, 0.0),
        drawings.DrawnShape("circle", "blue", drawings.COLOURS["blue"], 0.7, 0.65, 0.12, 0.0),
    ),
)


def drop(qtbot: QtBot, page: ChatPage, file: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(file))])
    copying, button, key = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    page.dropEvent(QDropEvent(QPointF(10, 10), copying, data, button, key))
    qtbot.waitUntil(lambda: not page.composer.pictures.is_reading)


def answer_prompts(qtbot: QtBot, window: MainWindow, drawing: Path) -> None:
    model, page, session = window.context.model, window.pages.chat().page, window.context.session
    assert model is not None
    for prompt, part, text in (
        ("what's 12+7?", MINI, "19"),
        ("Monday, [[...]], Wednesday.", GAPS, "Monday, Tuesday, Wednesday."),
    ):
        answer = ask(qtbot, window, prompt)
        assert (answer.model, answer.text.replace("\n", " ").strip()) == (part, text)
    for question, text in (("What colour is the star?", "red"), ("What shape is blue?", "circle")):
        drop(qtbot, page, drawing)
        answer = ask(qtbot, window, question)
        assert (answer.model, answer.text) == (SIGHT, text)
        assert answer.trace is not None
        assert len(answer.trace.pictures) == 1
    answer = ask(qtbot, window, "What shape is red?")  # of the drawing before
    assert (answer.model, answer.text) == (SIGHT, "star")
    assert session.chat.turns[-1].pictures == session.chat.turns[-2].pictures
    assert ask(qtbot, window, f"Solve this Sudoku:\n{PUZZLE}").model == PUZZLES
    assert page.turns[-1].answer.board.is_on
    assert page.turns[0].answer.model is model.part(MINI)  # which reads its canvas


def use_other_pages(qtbot: QtBot, window: MainWindow) -> None:
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


def continue_a_run_of_a_part(qtbot: QtBot, window: MainWindow) -> None:
    """Measures its influence, reads it once more, and forks it after another model was loaded."""
    context, inspector = window.context, window.pages.inspector()
    window.pages.chat().commands.inspect(context.session.chat.turns[0].answer, 0)
    first = inspector.page.player.trace
    assert first is not None
    assert inspector.continuations.refusal("forks") == ""
    view = inspector.page.change.influence
    inspector.page.player.go(2)
    view.asked.emit(1, 20)
    qtbot.waitUntil(lambda: view.influence is not None, timeout=RUN_MS)
    for model in (SMALL, BASE):
        if model != SMALL:
            context.load(model)
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
    player = inspector.page.player
    qtbot.waitUntil(
        lambda: not inspector.continuations.is_forking and player.trace is not first,
        timeout=RUN_MS,
    )
    assert player.trace is not None
    assert player.trace.header.model.name == MINI


def test_each_prompt_and_page_takes_its_part(
    qtbot: QtBot, window_with: Callable[[str], MainWindow], tmp_path: Path
) -> None:
    drawing = tmp_path / "drawing.png"
    Image.fromarray(drawings.draw(SCENE, 3 * drawings.SIDE)).save(drawing)  # larger than it is read
    window = window_with(SMALL)
    model = window.context.model
    answer_prompts(qtbot, window, drawing)
    use_other_pages(qtbot, window)
    assert window.context.model is model
    continue_a_run_of_a_part(qtbot, window)
