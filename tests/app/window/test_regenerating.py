"""Regenerating where another model is loaded than wrote the answer: it is asked first, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.session.model_slot import ModelChoice
from app.state.chat.conversation import Answer
from app.window.main_window import MainWindow
from engine import BASE, MINI, SUDOKU
from engine.catalog import SMALL
from tests.app.sudoku.solver_engine import SolverEngine
from tests.app.window.asking import ask
from tests.fake_engine import FakeEngine

Open = Callable[..., MainWindow]


class Adapting(FakeEngine):
    """Takes adapters."""

    def load_model(self, *args: Any, **named: Any) -> Any:
        made = super().load_model(*args, **named)
        made.adapter = None
        return made

    load_adapter, unload_adapter = SolverEngine.load_adapter, SolverEngine.unload_adapter
    adapters: list[str | None] = []  # noqa: RUF012 - as the solver engine has it


@pytest.fixture
def fake() -> FakeEngine:
    """Takes adapters."""
    return Adapting()


def load(qtbot: QtBot, window: MainWindow, model: str, adapter: str | None = None) -> None:
    window.context.load(model, adapter)
    qtbot.waitUntil(lambda: window.context.slot.choice == ModelChoice(model, adapter))


def answers(window: MainWindow) -> list[Answer]:
    return window.context.session.chat.turns[0].answers.items


def test_the_loaded_model_answers_again_whoever_wrote_the_answer(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(MINI)
    ask(qtbot, window, "hello")
    load(qtbot, window, BASE)
    window.pages.chat().commands.again(window.context.session.chat.turns[-1])
    qtbot.waitUntil(lambda: len(answers(window)) == 2 and window.context.session.active is None)
    assert [answer.model for answer in answers(window)] == [MINI, BASE]


def test_what_was_asked_for_lapses_with_its_model(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(MINI)
    ask(qtbot, window, "hello")
    window.pages.chat().commands.ask_other(window.context.session.chat.turns[0], SMALL)
    window.context.load(SUDOKU)  # another is chosen meanwhile
    qtbot.waitUntil(lambda: window.context.slot.choice == ModelChoice(SUDOKU))
    load(qtbot, window, SMALL)
    assert len(answers(window)) == 1
