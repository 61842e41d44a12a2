"""Sudokus in the chat: prompts and answers that are boards, as they develop and as the library has them."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.chat.commands import ViewOptions
from app.chat.controller import ChatController
from app.chat.messages.answer import AnswerView
from app.chat.messages.turn import TurnView
from app.design import motion, themes
from app.design.tokens import PAPER
from app.state.chat.conversation import Answer, ChatState
from app.state.run.stats import RunFigures
from app.state.sudoku.board import verdict
from app.sudoku.words import SAMPLE
from engine import SUDOKU as MODEL
from engine import GenerationConfig
from engine.tasks import sudoku
from tests.app.chat.asking import answered
from tests.app.sudoku.scripted import PUZZLE, SOLVED
from tests.app.sudoku.solver_engine import SolverEngine

LINES, SOLUTION = sudoku.rows(PUZZLE), sudoku.rows(SOLVED)


def shown(qtbot: QtBot, prompt: str, text: str) -> TurnView:
    answer = Answer("A model", 3, GenerationConfig())
    answer.text, answer.status, answer.kept = text, "done", RunFigures(12, 1, 0, 1.5, 9.0, 40.0)
    motion.set_reduced(True)
    commands = Mock(others=lambda _turn: (), can_change=lambda _turn: True)
    view = TurnView(ChatState().ask(prompt, answer), None, ViewOptions(calm=True), commands, lambda: None)
    qtbot.addWidget(view)
    view.resize(700, 900)
    view.show()
    return view


def test_a_grid_alone_is_a_board_and_nothing_else(qtbot: QtBot) -> None:
    view = shown(qtbot, f"Solve this:\n{LINES}", SOLUTION)
    assert view.answer.board.isVisible()
    assert not view.answer.text.isVisible()
    assert view.answer.board.verdict.text() == "Solved: the puzzle's only solution."
    assert not view.answer.board.legend.isVisible()
    assert view.prompt.board is None  # it says more than the puzzle
    before = view.answer.board.board.grab().toImage()
    themes.publish(PAPER)
    assert view.answer.board.board.grab().toImage() != before


@pytest.mark.parametrize(
    ("prompt", "text", "is_board"),
    [
        (LINES, f"Here it is:\n\n{SOLUTION}\n\nEnjoy!", True),
        (LINES, "I cannot solve it.", False),
        ("Nine numbers, please.", LINES.replace("0", "5"), False),
    ],
    ids=["words around", "words alone", "not asked for"],
)
def test_words_stay_around_a_grid_and_what_is_no_sudoku_is_text(
    qtbot: QtBot, prompt: str, text: str, is_board: bool
) -> None:
    view = shown(qtbot, prompt, text)
    answer = view.answer
    assert answer.board.isVisible() == is_board
    assert answer.text.isVisible()
    assert answer.text.text().endswith(text[-6:])


# ---------------------------------------------------------------- on the page, with a stand-in engine


@pytest.fixture
def fake() -> SolverEngine:
    return SolverEngine()


def begin(qtbot: QtBot, chat: ChatController, fake: SolverEngine) -> AnswerView:
    """Asks for a puzzle to be solved, and waits for the second step."""
    fake.hold = True
    chat._context.apply_values()
    chat.sending.send(sudoku.rows(SAMPLE))
    fake.gate.release(2)
    view = chat.page.turns[-1].answer
    qtbot.waitUntil(lambda: view.board.isVisible() and view.board.board.frame.steps == 2)
    return view


def test_an_answer_develops_as_a_board_settles_into_one_and_comes_back_as_one(
    qtbot: QtBot, open_chat: Callable[..., ChatController], fake: SolverEngine
) -> None:
    chat = open_chat(MODEL)
    fake.wrong = (2, 3)
    view = begin(qtbot, chat, fake)
    assert not any(canvas.isVisible() for canvas in view.canvases)
    assert view.board.verdict.text() == ""
    qtbot.waitUntil(lambda: view.board.height() > view.board.board.height())  # it is laid out
    place, size = view.board.mapTo(view, view.board.board.pos()), view.board.size()
    fake.gate.release(20)
    answered(qtbot, chat)
    frame = view.board.board.frame
    assert [cell.given for cell in frame.cells] == [sign.strip("0") for sign in SAMPLE]
    assert view.board.verdict.text() == verdict(SAMPLE, frame.answer).text == "Not solved: 2 of 51 blanks wrong."
    assert (view.board.mapTo(view, view.board.board.pos()), view.board.size()) == (place, size)  # nothing jumped
    assert not view.text.isVisible()
    view.copy.click()
    assert QGuiApplication.clipboard().text() == sudoku.rows(frame.answer)
    view.canvas_toggle.click()
    assert view.canvases[0].isVisible()
    assert view.board.isVisible()

    prompt = chat.page.turns[0].prompt
    assert prompt.board.isVisible()
    assert not prompt.prose.isVisible()
    assert prompt.board.accessibleDescription() == "30 digits entered, 0 conflicts."
    prompt.copy.click()
    assert QGuiApplication.clipboard().text() == sudoku.rows(SAMPLE)
    prompt.begin_editing()
    assert not prompt.board.isVisible()
    assert prompt.editor.field.toPlainText() == sudoku.rows(SAMPLE)

    session = chat._session
    conversation, session.chat = session.conversation, ChatState()
    session.open_new()
    session.open(conversation)
    again = chat.page.turns[-1].answer
    assert again.board.isVisible()
    assert again.canvases == []
    kept = [cell._replace(entropy=None, times_taken_back=0, marks=()) for cell in frame.cells]
    assert list(again.board.board.frame.cells) == kept
    assert again.board.verdict.text() == view.board.verdict.text()


def test_what_is_stopped_stays_on_its_board(
    qtbot: QtBot, open_chat: Callable[..., ChatController], fake: SolverEngine
) -> None:
    chat = open_chat(MODEL)
    fake.steps = 40
    view = begin(qtbot, chat, fake)
    chat._session.stop()
    fake.gate.release(1)
    answered(qtbot, chat)
    assert view.board.isVisible()
    assert view.board.board.frame.verdict is None
    assert not view.canvas_toggle.isChecked()
    assert "Stopped before the end." in view.remarks.text()
