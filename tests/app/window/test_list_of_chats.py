"""The list of chats in the window: deleting and taking back, keys, and chats opened at the hits of a search."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QListView
from pytestqt.qtbot import QtBot

from app.chat.markdown_view.widget import MarkdownView
from app.library import Library, NewMessage
from app.window.main_window import MainWindow
from tests.app.window.asking import ask

Open = Callable[..., MainWindow]


def stored(window: MainWindow, *titles: str) -> list[int]:
    """Stores conversations of a prompt and an answer; returns their ids."""
    library, ids = window.context.library, []
    for title in titles:
        ids.append(library.create(title=title))
        prompt = library.add(ids[-1], NewMessage(None, "user", f"{title}?"))
        library.add(ids[-1], NewMessage(prompt, "assistant", f"About {title}."))
    window.conversations.refresh()
    return ids


def titles(window: MainWindow) -> list[str]:
    return [row.title for row in window.sidebar.list.rows.rows if not isinstance(row, str)]


def bin_of(window: MainWindow) -> list[str]:
    shown = window.sidebar.deleted.list
    return [shown.item(row).text().partition("\n")[0] for row in range(shown.count())]


def kept_by(window: MainWindow) -> tuple[list[str], list[str]]:
    """The titles of the conversations on disk, and of the deleted ones."""
    with closing(Library.open(window.context.folders.data)) as library:
        return [one.title for one in library.summaries()], [one.title for one in library.deleted()]


def click(window: MainWindow, conversation: int) -> None:
    listing = window.sidebar.list
    where = listing.visualRect(listing.rows.index_of(conversation)).center()
    QTest.mouseClick(listing.viewport(), Qt.MouseButton.LeftButton, pos=where)


def test_a_chat_that_was_deleted_lies_in_recently_deleted_after_a_restart(qtbot: QtBot, open_window: Open) -> None:
    window = open_window(None)
    first, second, third = stored(window, "harbour", "meadow", "valley")
    QTest.keyClicks(window.sidebar.search, "meadow")
    QTest.keyClick(window.sidebar.search, Qt.Key.Key_Return)
    click(window, second)
    QTest.keyClick(window.sidebar.list, Qt.Key.Key_Backspace)
    assert (titles(window), window.sidebar.search.text()) == (["meadow"], "meadow")
    QTest.keyClick(window.sidebar.list, Qt.Key.Key_Delete)  # among the hits of a search
    assert titles(window) == []
    assert window.context.session.conversation is None
    window.close()
    again = open_window(None)
    assert titles(again) == ["valley", "harbour"]
    assert bin_of(again) == ["meadow"]
    again.actions_by_name["deleted"].run()
    again.sidebar.deleted.restore.click()
    assert titles(again) == ["valley", "meadow", "harbour"]
    assert again.context.session.conversation == second
    assert again.sidebar.list.isVisible()
    for conversation in (first, third):
        again.sidebar.delete_asked.emit([conversation])
    again.sidebar.show_deleted()
    again.sidebar.erase_asked.emit([first])
    qtbot.waitUntil(lambda: bin_of(again) == ["valley"])
    again.close()
    assert kept_by(again) == (["meadow"], ["valley"])


def test_the_list_follows_another_window(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.window.sidebar.controller.LOOK_MS", 50)
    one = open_window(None)
    other = open_window(None)
    (conversation,) = stored(one, "harbour")
    qtbot.waitUntil(lambda: titles(other) == ["harbour"])
    other.context.library.describe(conversation, title="haven")
    qtbot.waitUntil(lambda: titles(one) == ["haven"])
    one.sidebar.delete_asked.emit([conversation])
    qtbot.waitUntil(lambda: (titles(other), bin_of(other)) == ([], ["haven"]))
    other.sidebar.erase_asked.emit([conversation])
    qtbot.waitUntil(lambda: bin_of(one) == [])
    assert not one.sidebar.to_deleted.isVisible()


def test_after_a_click_in_the_list_keys_rename_and_delete_and_text_goes_to_the_composer(
    qtbot: QtBot, open_window: Open
) -> None:
    window = open_window()
    ask(qtbot, window, "one")
    window.conversations.open_new()
    ask(qtbot, window, "two")
    listed, edit = window.sidebar.list, window.pages.chat().page.composer.edit
    id = min(summary.id for summary in window.context.library.summaries())

    def click() -> None:
        where = listed.visualRect(listed.rows.index_of(id)).center()
        qtbot.mouseClick(listed.viewport(), Qt.MouseButton.LeftButton, pos=where)
        assert window.context.session.conversation == id
        assert listed.hasFocus()

    click()
    QTest.keyClick(listed, "s")
    assert edit.hasFocus()
    assert edit.toPlainText() == "s"
    click()
    QApplication.clipboard().setText("un")
    QTest.keyClick(listed, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert edit.toPlainText().endswith("un")
    click()
    QTest.keyClick(listed, Qt.Key.Key_F2)
    assert listed.state() == QListView.State.EditingState
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    QTest.keyClick(listed, Qt.Key.Key_Delete)
    assert id not in [summary.id for summary in window.context.library.summaries()]


# ---------------------------------------------------------------- hits of a search


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


def test_chats_of_another_program_come_and_are_taken_back(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    window = open_window(None)
    stored(window, "harbour")
    exported = tmp_path / "conversations.json"
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hi"]}}
    chats = [
        {"title": title, "conversation_id": title, "mapping": {"1": {"parent": None, "message": said}}}
        for title in ("meadow", "valley")
    ]
    exported.write_text(json.dumps(chats))
    window.conversations.ask_open = lambda: [str(exported)]
    window.conversations.bring_in()
    undo = window.sidebar.undo
    qtbot.waitUntil(lambda: undo.button.isVisible())
    assert (sorted(titles(window)), undo.line.accessibleName()) == (
        ["harbour", "meadow", "valley"],
        "2 chats imported",
    )
    undo.button.click()
    assert (titles(window), sorted(bin_of(window))) == (["harbour"], ["meadow", "valley"])
    exported.write_text(f"[{json.dumps(chats[0])}, {{")  # damaged behind the first
    with qtbot.waitSignal(window.conversations._importing.failed):
        window.conversations.bring_in()
    assert (undo.line.accessibleName(), undo.button.isVisible()) == ("1 chat imported", True)
    undo.button.click()
    exported.write_text("{}")
    with qtbot.waitSignal(window.conversations._importing.failed) as refused:
        window.conversations.bring_in()
    assert "no chats of a known program" in refused.args[0]
