"""The sidebar by keyboard and mouse: what it emits and what it shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QKeySequence, QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QVBoxLayout, QWidget

from app.design.stylesheet import chrome
from app.design.tokens import DARKROOM
from app.library import Summary
from app.window.sidebar import SIDEBAR_WIDTH, Sidebar, style

DAY = 86_400.0
NOW = 1_700_000_000.0


def some(count: int) -> list[Summary]:
    """One pinned, then one a day into the past."""
    return [Summary(id, f"Talk {id}", 0.0, NOW - (id - 1) * DAY, pinned=id == 1) for id in range(1, count + 1)]


@pytest.fixture
def sidebar(qtbot):
    made = Sidebar()
    made.setStyleSheet(chrome(DARKROOM, style))
    qtbot.addWidget(made)
    made.resize(SIDEBAR_WIDTH, 600)
    made.show_conversations(some(6), 2, NOW)
    made.show()
    qtbot.waitExposed(made)
    made.activateWindow()
    made.list.setFocus()
    qtbot.waitUntil(made.list.hasFocus)
    return made


@pytest.fixture
def emitted(sidebar) -> list[tuple[object, ...]]:
    """Everything that the sidebar emits, in order."""
    found: list[tuple[object, ...]] = []
    for name in (
        *("new_asked", "opened", "renamed", "pin_asked", "delete_asked", "undo_asked"),
        *("erase_asked", "export_asked", "import_asked", "searched"),
    ):
        getattr(sidebar, name).connect(lambda *values, name=name: found.append((name, *values)))
    return found


def press(sidebar: Sidebar, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(sidebar.list, key, modifier)


def cursor(sidebar: Sidebar) -> int | None:
    summary = sidebar.list.rows.summary(sidebar.list.currentIndex())
    return None if summary is None else summary.id


def texts(sidebar: Sidebar) -> list[str]:
    rows = sidebar.list.rows
    return [rows.data(rows.index(row)) for row in range(rows.rowCount())]


def editor(sidebar: Sidebar) -> QLineEdit:
    (field,) = sidebar.list.findChildren(QLineEdit)
    return field


def finish_editing(sidebar: Sidebar, qtbot) -> None:
    QTest.keyClick(editor(sidebar), Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: sidebar.list.hasFocus() and not sidebar.list.findChildren(QLineEdit))


def choose(sidebar: Sidebar, *names: str) -> None:
    """Pick from the open menu, through its submenus."""
    menu = sidebar.list.row_menu.menu
    assert menu.isVisible()
    for name in names[:-1]:
        menu = next(action for action in menu.actions() if action.text() == name).menu()
    action = next(action for action in menu.actions() if action.text().split("\t")[0] == names[-1])
    action.trigger()
    sidebar.list.row_menu.menu.close()


def test_the_cursor_begins_at_the_open_one_and_skips_headers(sidebar):
    assert texts(sidebar)[:5] == ["Pinned", "Talk 1", "Yesterday", "Talk 2", "Previous 7 days"]
    assert cursor(sidebar) == 2
    seen = []
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_End, Qt.Key.Key_Home):
        press(sidebar, key)
        seen.append(cursor(sidebar))
    assert seen == [3, 2, 1, 1, 6, 1]


def test_enter_and_a_click_open(sidebar, emitted):
    press(sidebar, Qt.Key.Key_Down)
    press(sidebar, Qt.Key.Key_Return)
    row = sidebar.list.visualRect(sidebar.list.rows.index_of(5))
    QTest.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=row.center())
    header = sidebar.list.visualRect(sidebar.list.rows.index(0))
    QTest.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=header.center())
    assert emitted == [("opened", 3), ("opened", 5)]


def test_f2_renames_in_place(sidebar, emitted, qtbot):
    press(sidebar, Qt.Key.Key_F2)
    field = editor(sidebar)
    assert (field.text(), field.accessibleName()) == ("Talk 2", "Title of the conversation")
    assert field.selectedText() == "Talk 2"
    field.setText("  A  better\ttitle ")
    finish_editing(sidebar, qtbot)
    assert emitted == [("renamed", 2, "A better title")]
    assert texts(sidebar)[3] == "A better title"


@pytest.mark.parametrize(
    ("text", "key"), [("   ", Qt.Key.Key_Return), ("Talk 2", Qt.Key.Key_Return), ("not this", Qt.Key.Key_Escape)]
)
def test_no_title_the_same_title_and_escape_change_nothing(sidebar, emitted, text, key, qtbot):
    press(sidebar, Qt.Key.Key_F2)
    editor(sidebar).setText(text)
    QTest.keyClick(editor(sidebar), key)
    qtbot.waitUntil(lambda: sidebar.list.hasFocus() and not sidebar.list.findChildren(QLineEdit))
    assert emitted == []
    assert texts(sidebar)[3] == "Talk 2"


def test_a_new_list_waits_for_the_end_of_an_edit(sidebar, emitted, qtbot):
    press(sidebar, Qt.Key.Key_F2)
    editor(sidebar).setText("half a ti")
    sidebar.show_conversations(some(8), 2, NOW)
    assert editor(sidebar).text() == "half a ti"
    finish_editing(sidebar, qtbot)
    qtbot.waitUntil(lambda: "Talk 8" in texts(sidebar))
    assert emitted == [("renamed", 2, "half a ti")]


def test_delete_offers_undo_by_button_and_keys(sidebar, emitted, qtbot):
    assert not sidebar.undo.isVisible()
    press(sidebar, Qt.Key.Key_Delete)
    left = [summary for summary in some(6) if summary.id != 2]
    sidebar.show_conversations(left, None, NOW)
    assert cursor(sidebar) == 3  # the next one
    assert sidebar.undo.isVisible()
    assert sidebar.undo.line.accessibleName() == "Deleted “Talk 2”"
    press(sidebar, Qt.Key.Key_Delete)
    sidebar.show_conversations(left[:1] + left[2:], None, NOW)
    assert sidebar.undo.line.toolTip() == "Deleted “Talk 3”"
    sidebar.undo.button.click()
    assert sidebar.undo.line.toolTip() == "Deleted “Talk 2”"
    QTest.keyClick(sidebar.list, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: not sidebar.undo.isVisible())
    assert emitted == [("delete_asked", [2]), ("delete_asked", [3]), ("undo_asked", [3]), ("undo_asked", [2])]
    assert not sidebar.undo.shortcut.isEnabled()  # Ctrl+Z belongs to others again


def test_several_are_deleted_at_once_and_come_back_at_once(sidebar, emitted):
    press(sidebar, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    press(sidebar, Qt.Key.Key_Delete)
    sidebar.show_conversations([], None, NOW)
    assert sidebar.undo.line.toolTip() == "Deleted 6 conversations"
    sidebar.undo.button.click()
    sidebar.show_conversations(some(6), None, NOW)
    sidebar.list.setFocus()
    sidebar.list.setCurrentIndex(sidebar.list.rows.index_of(3))
    press(sidebar, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    press(sidebar, Qt.Key.Key_Menu)
    choose(sidebar, "Delete 2 conversations")
    every = [1, 2, 3, 4, 5, 6]
    assert emitted == [("delete_asked", every), ("undo_asked", every), ("delete_asked", [3, 4])]


def lately(*ids: int) -> list[Summary]:
    """Deleted one after the other, a day apart, the last one now."""
    return [Summary(id, f"Talk {id}", 0.0, NOW - place * DAY) for place, id in enumerate(ids)]


def test_the_recently_deleted_are_found_restored_and_deleted_for_good(sidebar, emitted):
    assert not sidebar.to_deleted.isVisible()
    sidebar.offer_deleted(lately(7, 8, 9), NOW)
    assert sidebar.to_deleted.text() == "Recently deleted (3)"
    sidebar.to_deleted.click()
    shown = sidebar.deleted.list
    assert shown.hasFocus()
    left = ["Talk 7\n30 days left", "Talk 8\n29 days left", "Talk 9\n28 days left"]
    assert [shown.item(row).text() for row in range(3)] == left
    QTest.keyClick(shown, Qt.Key.Key_Down)
    sidebar.deleted.restore.click()
    sidebar.offer_deleted(lately(7, 9), NOW)
    assert shown.currentItem().text().startswith("Talk 9")
    QTest.keyClick(shown, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(shown, Qt.Key.Key_Delete)
    question = sidebar.deleted.question
    assert question.text().startswith("Delete 2 conversations for good? Their recorded runs go with them")
    assert question.defaultButton().text() == "Keep"
    assert emitted == [("undo_asked", [8])]
    next(made for made in question.buttons() if made.text() == "Delete").click()
    assert emitted[1:] == [("erase_asked", [7, 9])]
    sidebar.offer_deleted([], NOW)
    assert sidebar.list.isVisible()
    assert not sidebar.to_deleted.isVisible()


def test_the_undo_bar_goes_after_its_time(sidebar):
    press(sidebar, Qt.Key.Key_Delete)
    assert sidebar.undo.timer.isActive()
    assert 8_000 <= sidebar.undo.timer.interval() <= 12_000
    sidebar.undo.button.setFocus()
    sidebar.undo.timer.timeout.emit()
    assert sidebar.undo.isVisible()  # not from under the keyboard
    sidebar.list.setFocus()
    sidebar.undo.timer.timeout.emit()
    assert not sidebar.undo.isVisible()


def test_a_refused_deletion_offers_no_undo(sidebar):
    sidebar.delete_asked.connect(lambda _id: sidebar.show_conversations(some(6), 2, NOW))
    press(sidebar, Qt.Key.Key_Delete)
    assert not sidebar.undo.isVisible()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("Open",), ("opened", 2)),
        (("Pin",), ("pin_asked", 2, True)),
        (("Delete",), ("delete_asked", [2])),
        (("Export as", "JSON"), ("export_asked", 2, "json")),
    ],
)
def test_the_menu_by_key(sidebar, emitted, names, expected):
    press(sidebar, Qt.Key.Key_Menu)
    assert sidebar.list.row_menu.menu.accessibleName() == "Actions for Talk 2"
    choose(sidebar, *names)
    assert emitted == [expected]


def right_click(sidebar: Sidebar, point: QPoint) -> None:
    port = sidebar.list.viewport()
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, point, port.mapToGlobal(point))
    QApplication.sendEvent(port, event)


def test_the_context_menu_is_of_the_row_under_the_mouse(sidebar, emitted):
    QTest.keyClick(sidebar.new, Qt.Key.Key_Space)
    QTest.keyClick(sidebar.more, Qt.Key.Key_Space)
    choose(sidebar, "Import…")
    right_click(sidebar, sidebar.list.visualRect(sidebar.list.rows.index_of(5)).center())
    choose(sidebar, "Pin")
    right_click(sidebar, QPoint(20, sidebar.list.viewport().height() - 5))  # below all rows
    choose(sidebar, "Import…")
    assert emitted == [("new_asked",), ("import_asked",), ("pin_asked", 5, True), ("import_asked",)]


# ------------------------------------------------------------------ search


def test_escape_clears_the_search_at_once_and_is_the_windows_after(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    sidebar = Sidebar()
    column.addWidget(sidebar)
    pressed: list[str] = []
    shortcut = QShortcut(QKeySequence("Escape"), window)
    shortcut.activated.connect(lambda: pressed.append("window"))
    sidebar.searched.connect(lambda query: pressed.append(f"search {query}"))
    window.show()
    qtbot.waitExposed(window)
    window.activateWindow()
    sidebar.focus_search()
    qtbot.waitUntil(sidebar.search.hasFocus)
    with qtbot.waitSignal(sidebar.searched):
        QTest.keyClicks(sidebar.search, "x")
    for _ in range(2):
        QTest.keyClick(window.windowHandle(), Qt.Key.Key_Escape)
    assert pressed == ["search x", "search ", "window"]


def test_empty_states_say_what_is_so(sidebar, emitted):
    sidebar.show_conversations([], None, NOW)
    assert sidebar.nothing_yet.isVisible()
    assert sidebar.new.hasFocus()  # not lost with the list
    sidebar.search.setText("xyzzy")
    QTest.keyClick(sidebar.search, Qt.Key.Key_Return)
    sidebar.show_conversations([], None, NOW)
    assert sidebar.nothing_found.isVisible()
    sidebar.clear_search.click()
    assert emitted[-1] == ("searched", "")
    sidebar.show_conversations(some(2), None, NOW)
    assert sidebar.list.isVisible()


# ------------------------------------------------------------------ many rows, odd rows


def test_place_and_cursor_stay_when_the_list_changes(sidebar):
    many = some(400)
    sidebar.show_conversations(many, 2, NOW)
    sidebar.list.setCurrentIndex(sidebar.list.rows.index_of(200))
    sidebar.list.scrollTo(sidebar.list.rows.index_of(200))
    before = sidebar.list.verticalScrollBar().value()
    assert before > 0
    sidebar.show_conversations([replace(many[0], title="renamed"), *many[1:]], 2, NOW)
    assert cursor(sidebar) == 200
    assert sidebar.list.verticalScrollBar().value() == before
    resets: list[QModelIndex] = []
    sidebar.list.rows.modelReset.connect(lambda: resets.append(QModelIndex()))
    sidebar.show_conversations([replace(many[0], title="renamed"), *many[1:]], 2, NOW)
    assert resets == []  # the same again is no change
    sidebar.show_conversations(many, 300, NOW)
    assert cursor(sidebar) == 300  # another one was opened
    assert sidebar.list.viewport().rect().intersects(sidebar.list.visualRect(sidebar.list.rows.index_of(300)))
