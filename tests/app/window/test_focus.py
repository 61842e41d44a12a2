"""Where the keyboard is after what was done with it, whether that is marked, and lists that show all their rows."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QListView, QPushButton
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow

Open = Callable[..., MainWindow]
RETURN = Qt.Key.Key_Return


def idle(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: not window.context.is_busy)


def ask(qtbot: QtBot, window: MainWindow, *prompts: str) -> None:
    edit = window.pages.chat().page.composer.edit
    for prompt in prompts:
        edit.setPlainText(prompt)
        qtbot.keyClick(edit, RETURN)
        idle(qtbot, window)


def press(control: QPushButton) -> None:
    """As with the keyboard."""
    control.setFocus()
    assert control.hasFocus()
    QTest.keyClick(control, Qt.Key.Key_Space)


def test_in_the_chat_the_focus_stays_in_its_place(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    page = window.pages.chat().page
    edit = page.composer.edit
    ask(qtbot, window, "one", "two")
    assert edit.hasFocus()

    press(page.turns[1].answer.again)  # regenerate: Stop takes its place, and gives it back
    assert page.turns[1].answer.stop.hasFocus()
    idle(qtbot, window)
    assert page.turns[1].answer.again.hasFocus()

    press(page.turns[1].answer.versions.before)  # version arrows: the same one, and at the end the other
    assert page.turns[1].answer.versions.after.hasFocus()

    press(page.turns[1].prompt.edit)
    editor = page.turns[1].prompt.editor
    assert editor is not None
    assert editor.field.hasFocus()
    editor.field.setPlainText("three")
    qtbot.keyClick(editor.field, RETURN)
    assert edit.hasFocus()  # what comes next is written there
    idle(qtbot, window)
    press(page.turns[1].prompt.versions.before)
    assert page.turns[1].prompt.prose.text() == "two"
    assert page.turns[1].prompt.versions.after.hasFocus()

    press(page.turns[1].prompt.delete)
    assert page.turns[1].prompt.delete.hasFocus()  # of the version that is left
    press(page.turns[1].prompt.delete)
    assert page.turns[0].prompt.delete.hasFocus()
    press(page.turns[0].prompt.delete)
    assert page.turns == []
    assert edit.hasFocus()


def test_after_a_click_in_the_list_keys_rename_and_delete_and_text_goes_to_the_composer(
    qtbot: QtBot, open_window: Open
) -> None:
    window = open_window()
    ask(qtbot, window, "one")
    window.conversations.begin()
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
