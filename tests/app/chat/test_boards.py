"""Answers that are Sudokus, as the library gives them: alone, within words, and as what they are not."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from pytestqt.qtbot import QtBot

from app.chat.commands import ViewOptions
from app.chat.messages.turn import TurnView
from app.design import motion, themes
from app.design.tokens import PAPER
from app.state.chat.conversation import Answer, ChatState
from app.state.run.stats import RunFigures
from engine import GenerationConfig
from engine.tasks import sudoku
from tests.app.sudoku.scripted import PUZZLE, SOLVED

OPTIONS = ViewOptions(calm=True)
LINES, SOLUTION = sudoku.rows(PUZZLE), sudoku.rows(SOLVED)


def shown(qtbot: QtBot, prompt: str, text: str, status: str = "done") -> TurnView:
    answer = Answer("A model", 3, GenerationConfig())
    answer.text, answer.status, answer.kept = text, status, RunFigures(12, 1, 0, 1.5, 9.0, 40.0)  # type: ignore[assignment]
    motion.set_reduced(True)
    view = TurnView(
        ChatState().ask(prompt, answer),
        None,
        OPTIONS,
        Mock(others=lambda _turn: (), can_change=lambda _turn: True),
        lambda: None,
    )
    qtbot.addWidget(view)
    view.resize(700, 900)
    view.show()
    return view


@pytest.mark.parametrize("status", ["done", "stopped"])
def test_a_grid_alone_is_a_board_and_nothing_else(qtbot: QtBot, status: str) -> None:
    view = shown(qtbot, f"Solve this:\n{LINES}", SOLUTION, status)
    assert view.answer.board.isVisible()
    assert not view.answer.text.isVisible()
    assert view.answer.board.verdict.text() == "Solved: the puzzle's only solution."
    assert not view.answer.board.legend.isVisible()
    assert view.prompt.board is None  # it says more than the puzzle
    before = view.answer.board.board.grab().toImage()
    themes.publish(PAPER)
    assert view.answer.board.board.grab().toImage() != before


def test_words_around_a_grid_stay(qtbot: QtBot) -> None:
    view = shown(qtbot, LINES, f"Here it is:\n\n{SOLUTION}\n\nEnjoy!")
    assert view.answer.board.isVisible()
    assert view.answer.text.isVisible()
    assert "Enjoy!" in view.answer.text.text()


def test_what_is_no_sudoku_is_text(qtbot: QtBot) -> None:
    for prompt, text in ((LINES, "I cannot solve it."), ("Nine numbers, please.", LINES.replace("0", "5"))):
        view = shown(qtbot, prompt, text)
        assert not view.answer.board.isVisible()
        assert view.answer.text.isVisible()
