"""Keys after a click in the list of chats."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QListView
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from tests.app.window.asking import ask

Open = Callable[..., MainWindow]


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
