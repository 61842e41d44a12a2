"""A deleted chat can be taken back, over restarts, and other windows see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.library import Library, NewMessage
from app.window.main_window import MainWindow

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
