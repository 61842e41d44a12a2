"""A click on a hit opens the chat at the hit, marked, also in a version that is not shown, or far into a long text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.markdown_view.widget import MarkdownView
from app.library import NewMessage
from app.window.main_window import MainWindow

Open = Callable[..., MainWindow]
LONG = "Nothing of note happened that day, nor on the next one. " * 12


def written(window: MainWindow, *texts: str) -> int:
    """Stores a conversation of prompts and answers in turn."""
    library = window.context.library
    conversation, parent = library.create(title="A diary"), None
    for place, text in enumerate(texts):
        parent = library.add(conversation, NewMessage(parent, "assistant" if place % 2 else "user", text))
    window.conversations.refresh()
    return conversation


def search(window: MainWindow, query: str) -> None:
    window.sidebar.search.setText(query)
    QTest.keyClick(window.sidebar.search, Qt.Key.Key_Return)


def marked(prose: MarkdownView) -> list[str]:
    return [section.copied(start, end) for section in prose.sections for start, end in prose._marks_in(section)]


def in_sight(window: MainWindow, prose: MarkdownView) -> bool:
    top = prose.first_mark()
    scroller = window.pages.chat().page.scroller
    return top is not None and 0 <= scroller.height_in_sight(prose) + top < scroller.viewport().height()


@pytest.fixture
def window(open_window: Open) -> MainWindow:
    made = open_window(None)
    made.resize(1000, 600)
    return made


def test_a_chat_is_opened_at_its_hit_which_is_marked(qtbot: QtBot, window: MainWindow) -> None:
    texts = [f"{LONG} {place}" for place in range(16)]
    texts[5] = f"{LONG}\n\nThe **Lighthouse** 😀 keeper said: lighthouses are built by keepers.\n\n{LONG}"
    written(window, *texts)
    search(window, "lighthouse keep")
    page = window.pages.chat().page
    turn = window.context.session.chat.turns[2]
    qtbot.waitUntil(lambda: page.view_of(turn) is not None and in_sight(window, page.view_of(turn).answer.text))
    assert marked(page.view_of(turn).answer.text) == ["Lighthouse", "keep", "lighthouse", "keep"]
    others = [view for view in page._views() if view.turn is not turn]
    assert not any(marked(prose) for view in others for prose in (view.prompt.prose, view.answer.text))
    search(window, "")
    window.sidebar.search.clear()
    window.sidebar.list.open_first()
    qtbot.waitUntil(lambda: not any(marked(view.answer.text) for view in page._views()))


def test_a_hit_in_another_version_is_shown_and_stays_shown(window: MainWindow) -> None:
    library = window.context.library
    conversation = written(window, "Where does the keeper live?")
    (prompt,) = library.messages(conversation)
    first = library.add(conversation, NewMessage(prompt.id, "assistant", "In the lighthouse."))
    library.add(conversation, NewMessage(first, "user", "And who is with him?"))
    library.add(conversation, NewMessage(prompt.id, "assistant", "I cannot say."))
    search(window, "lighthouse")
    session = window.context.session
    assert session.chat.turns[0].answer.text == "In the lighthouse."
    assert len(session.chat.turns) == 2
    session.open(conversation)
    assert session.chat.turns[0].answer.text == "In the lighthouse."


def test_a_hit_beyond_what_is_shown_of_a_long_text_is_shown(qtbot: QtBot, window: MainWindow) -> None:
    written(window, "A long log, please", "\n".join(f"line {place}" for place in range(9000)) + "\nzanzibar")
    search(window, "zanzibar")
    page = window.pages.chat().page
    turn = window.context.session.chat.turns[0]
    qtbot.waitUntil(lambda: in_sight(window, page.view_of(turn).answer.text), timeout=20_000)
    assert marked(page.view_of(turn).answer.text) == ["zanzibar"]
