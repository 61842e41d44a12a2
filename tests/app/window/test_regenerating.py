"""Regenerating where another model is loaded than wrote the answer: it is asked first, also after a restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.context import ModelChoice
from app.library import NewMessage
from app.settings import store
from app.state.chat.conversation import Answer
from app.window.main_window import MainWindow
from engine import BASE, SKILLS, SUDOKU
from tests.app.sudoku.solver_engine import SolverEngine
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


def ask(qtbot: QtBot, window: MainWindow, text: str = "hello") -> None:
    window.pages.chat().send(text)
    qtbot.waitUntil(lambda: window.context.session.active is None)


def load(qtbot: QtBot, window: MainWindow, model: str, adapter: str | None = None) -> None:
    window.context.load(model, adapter)
    qtbot.waitUntil(lambda: window.context.choice == ModelChoice(model, adapter))


def offered(window: MainWindow) -> list[str]:
    notice = window.pages.chat().page.notice
    return [made.text() for made in notice.choices] if notice.isVisible() else []


def choose(window: MainWindow, index: int) -> None:
    window.pages.chat().page.notice.choices[index].click()


def answers(window: MainWindow) -> list[Answer]:
    return window.context.session.chat.turns[0].answers.items


def test_after_a_restart_with_another_model_it_is_asked_and_the_right_one_loaded(
    qtbot: QtBot, open_window: Open
) -> None:
    window = open_window(None)
    load(qtbot, window, BASE, "sudoku-lora")
    ask(qtbot, window, "0" * 81)
    window.close()
    again = open_window(SKILLS)
    again.reopening.reopen()
    page = again.pages.chat().page
    page.turns[0].answer.again.click()
    assert len(answers(again)) == 1
    title = "Safelight Base with the sudoku-lora adapter"
    assert page.notice.message.text() == f"{title} wrote this answer; Safelight Skills is loaded."
    assert offered(again) == [f"Load {title} and regenerate", "Regenerate with Safelight Skills"]
    assert page.notice.choices[0].hasFocus()
    choose(again, 0)
    assert offered(again) == []
    qtbot.waitUntil(lambda: len(answers(again)) == 2 and again.context.session.active is None)
    assert again.context.choice == ModelChoice(BASE, "sudoku-lora")
    assert [(answer.model, answer.adapter) for answer in answers(again)] == [(BASE, "sudoku-lora")] * 2
    page.turns[0].answer.again.click()  # the same model: no question
    assert len(answers(again)) == 3
    qtbot.waitUntil(lambda: again.context.session.active is None)


def test_the_loaded_model_may_answer(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(SKILLS)
    ask(qtbot, window)
    load(qtbot, window, BASE)
    window.pages.chat().again_last()
    choose(window, 1)
    qtbot.waitUntil(lambda: window.context.session.active is None)
    assert [answer.model for answer in answers(window)] == [SKILLS, BASE]
    window.pages.chat().again_last()
    assert offered(window) == []
    qtbot.waitUntil(lambda: window.context.session.active is None)


def test_what_was_asked_for_lapses_with_its_model_and_its_conversation(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(SKILLS)
    ask(qtbot, window)
    load(qtbot, window, BASE)
    window.pages.chat().again_last()
    choose(window, 0)
    window.context.load(SUDOKU)  # another is chosen meanwhile
    qtbot.waitUntil(lambda: window.context.model is not None)
    load(qtbot, window, SKILLS)
    assert len(answers(window)) == 1
    load(qtbot, window, BASE)
    window.pages.chat().again_last()
    assert offered(window)
    window.context.session.begin()
    assert not window.pages.chat().page.notice.isVisible()


def test_an_answer_of_before_is_known_by_its_title_and_one_from_elsewhere_is_not(
    qtbot: QtBot, open_window: Open
) -> None:
    window = open_window(SKILLS)
    library = window.context.library
    for title, settings in (
        ("Safelight Sudoku", "{}"),
        ("A model", json.dumps({"model": "/" + "x" * 3000, "adapter": 7, "trace": 3})),
        ("A model", json.dumps({"model": "\0"})),
        ("Safelight Skills", ""),
    ):
        id = library.create(title=title)
        asked = library.add(id, NewMessage(None, "user", "hello"))
        library.add(id, NewMessage(asked, "assistant", "answer", model=title, settings=settings))
        window.context.session.open(id)
        window.pages.chat().again_last()
        if title == "Safelight Sudoku":
            assert offered(window) == ["Load Safelight Sudoku and regenerate", "Regenerate with Safelight Skills"]
        elif title == "A model":
            assert offered(window) == ["Regenerate with Safelight Skills"]
            assert "is not here" in window.pages.chat().page.notice.message.text()
        else:
            assert offered(window) == []
    qtbot.waitUntil(lambda: window.context.session.active is None)
    assert store.read_model(window.context.settings) == (SKILLS, None)
