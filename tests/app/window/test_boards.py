"""A Sudoku in the window, with a stand-in engine: in the chat, in a conversation opened again, in the inspector."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.chat.messages.answer import AnswerView
from app.state.chat.conversation import ChatState
from app.state.sudoku.board import verdict
from app.sudoku.words import SAMPLE
from app.window.main_window import MainWindow
from engine import SUDOKU as MODEL
from engine.tasks import sudoku
from tests.app.sudoku.solver_engine import SolverEngine

Open = Callable[..., MainWindow]
RUN_MS = 60_000


@pytest.fixture
def fake() -> SolverEngine:
    return SolverEngine()


def begin(window: MainWindow, prompt: str) -> AnswerView:
    window.context.apply_values()
    window.pages.chat().sending.send(prompt)
    return last(window)


def last(window: MainWindow) -> AnswerView:
    return window.pages.chat().page.turns[-1].answer


def idle(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: not window.context.is_busy and window.context.session.active is None, timeout=RUN_MS)


def reopen(window: MainWindow) -> AnswerView:
    """The conversation on show as the library has it."""
    session = window.context.session
    conversation = session.conversation
    session.open_new()
    session.chat = ChatState()
    session.open(conversation)
    return last(window)


def test_an_answer_develops_as_a_board_settles_into_one_and_comes_back_as_one(
    qtbot: QtBot, open_window: Open, fake: SolverEngine
) -> None:
    window = open_window(MODEL)
    fake.hold, fake.wrong = True, (2, 3)
    view = begin(window, sudoku.rows(SAMPLE))
    fake.gate.release(2)
    qtbot.waitUntil(lambda: view.board.isVisible() and view.board.board.frame.steps == 2)
    assert not any(canvas.isVisible() for canvas in view.canvases)
    assert view.board.verdict.text() == ""
    qtbot.waitUntil(lambda: view.board.height() > view.board.board.height())  # it is laid out
    place = view.board.mapTo(view, view.board.board.pos())
    size = view.board.size()
    fake.gate.release(20)
    idle(qtbot, window)
    frame = view.board.board.frame
    assert frame.puzzle == SAMPLE
    assert [cell.given for cell in frame.cells] == [sign.strip("0") for sign in SAMPLE]
    assert view.board.verdict.text() == verdict(SAMPLE, frame.answer).text == "Not solved: 2 of 51 blanks wrong."
    assert (view.board.mapTo(view, view.board.board.pos()), view.board.size()) == (place, size)  # nothing jumped
    assert not view.text.isVisible()
    view.copy.click()
    assert QGuiApplication.clipboard().text() == sudoku.rows(frame.answer)
    view.canvas_toggle.click()
    assert view.canvases[0].isVisible()
    assert view.board.isVisible()
    again = reopen(window)
    assert again.board.isVisible()
    assert again.canvases == []
    assert again.board.board.frame.cells == tuple(
        cell._replace(entropy=None, times_taken_back=0, marks=()) for cell in frame.cells
    )
    assert again.board.verdict.text() == view.board.verdict.text()


def test_a_puzzle_that_is_asked_is_a_board_and_is_edited_as_text(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(MODEL)
    begin(window, sudoku.rows(SAMPLE))
    idle(qtbot, window)
    prompt = window.pages.chat().page.turns[0].prompt
    assert prompt.board.isVisible()
    assert not prompt.prose.isVisible()
    assert prompt.board.accessibleDescription() == "30 digits entered, 0 conflicts."
    prompt.copy.click()
    assert QGuiApplication.clipboard().text() == sudoku.rows(SAMPLE)
    prompt.begin_editing()
    assert not prompt.board.isVisible()
    assert prompt.editor.field.toPlainText() == sudoku.rows(SAMPLE)


def test_what_is_stopped_stays_on_its_board(qtbot: QtBot, open_window: Open, fake: SolverEngine) -> None:
    window = open_window(MODEL)
    fake.hold, fake.steps = True, 40
    view = begin(window, sudoku.rows(SAMPLE))
    fake.gate.release(2)
    qtbot.waitUntil(lambda: view.board.isVisible() and view.board.board.frame.steps == 2)
    window.context.session.stop()
    fake.gate.release(1)
    idle(qtbot, window)
    assert view.board.isVisible()
    assert view.board.board.frame.verdict is None
    assert not view.canvas_toggle.isChecked()
    assert "Stopped before the end." in view.remarks.text()
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer, 0)
    inspector = window.pages["inspector"].page
    assert inspector.canvas.board.isVisible()
    assert inspector.canvas.board.frame.puzzle == SAMPLE
