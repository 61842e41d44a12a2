"""The command palette and the registry of actions: what letters find, keys, and what cannot be done now."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QPushButton, QSpinBox, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.design.action import Action, Actions
from app.window.palette import REASON, Palette

TITLES = ["New conversation", "Rename the conversation", "Search conversations", "Stop the answer", "Next theme"]


class Opened:
    """A palette over a few actions, and what it ran."""

    def __init__(self, qtbot: QtBot) -> None:
        self.ran: list[str] = []
        self.blocked = "The answer is being written; Esc stops it."
        actions = Actions()
        for title in TITLES:
            why = (lambda: self.blocked) if title.startswith("Rename") else (lambda: "")
            actions.add(Action(title, title, "Some", lambda title=title: self.ran.append(title), (), why))
        actions.add(Action("hidden", "Command palette", "Some", lambda: None, ("Ctrl+K",), in_palette=False))
        self.palette = Palette(actions)
        qtbot.addWidget(self.palette)
        self.palette.ask()
        qtbot.waitExposed(self.palette)

    @property
    def titles(self) -> list[str]:
        model = self.palette.model
        return [model.index(row, 0).data() for row in range(model.rowCount())]


@pytest.fixture
def opened(qtbot: QtBot) -> Opened:
    return Opened(qtbot)


def test_typing_filters_and_enter_runs(qtbot: QtBot, opened: Opened) -> None:
    assert opened.titles == TITLES
    qtbot.keyClicks(opened.palette.field, "sto")
    assert opened.titles[0] == "Stop the answer"
    qtbot.keyClick(opened.palette.field, Qt.Key.Key_Return)
    assert opened.ran == ["Stop the answer"]
    assert not opened.palette.isVisible()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("new", TITLES[:1]),
        ("conv ren", ["Rename the conversation"]),
        ("RENÂME", ["Rename the conversation"]),
        ("th", ["Rename the conversation", "Stop the answer", "Next theme"]),
        ("new zebra", []),
    ],
)
def test_all_words_are_found_and_words_that_begin_so_come_first(
    qtbot: QtBot, opened: Opened, query: str, found: list[str]
) -> None:
    opened.palette.field.setText(query)
    assert opened.titles == found
    assert ("No match" in opened.palette.hint.text()) == (not found)
    if not found:
        qtbot.keyClick(opened.palette.field, Qt.Key.Key_Return)
        assert opened.palette.isVisible()


def test_arrows_move_while_the_field_keeps_the_keyboard(qtbot: QtBot, opened: Opened) -> None:
    field = opened.palette.field
    for _press in range(2):
        qtbot.keyClick(field, Qt.Key.Key_Down)
    qtbot.keyClick(field, Qt.Key.Key_Up)
    qtbot.keyClick(field, Qt.Key.Key_Down)
    assert opened.palette.current is not None
    assert opened.palette.current.title == TITLES[2]
    assert TITLES[2] in field.accessibleDescription()  # read out, as the keyboard stays in the field
    qtbot.keyClick(field, Qt.Key.Key_Enter)
    assert opened.ran == [TITLES[2]]


def test_what_cannot_be_done_says_why_and_stays(qtbot: QtBot, opened: Opened) -> None:
    qtbot.keyClicks(opened.palette.field, "rename")
    assert opened.palette.hint.text() == opened.blocked
    assert opened.palette.model.index(0, 0).data(REASON) == opened.blocked
    qtbot.keyClick(opened.palette.field, Qt.Key.Key_Return)
    assert opened.palette.isVisible()
    assert opened.ran == []
    opened.blocked = ""  # the answer has ended meanwhile
    qtbot.keyClick(opened.palette.field, Qt.Key.Key_Return)
    assert opened.ran == ["Rename the conversation"]


# ---------------------------------------------------------------- the registry of actions


class Ran:
    """Counts what was run and keeps why something was not."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.refusals: list[str] = []
        self.reason = ""

    def action(self, name: str, *keys: str, section: str = "Some") -> Action:
        return Action(name, name.title(), section, lambda: self.ids.append(name), keys, lambda: self.reason)


@pytest.fixture
def ran() -> Ran:
    return Ran()


def test_a_pages_keys_are_its_own_and_come_first(qtbot: QtBot, ran: Ran) -> None:
    here = Action("here", "Here", "On the page", list, ("Space",), page="one")
    there = Action("there", "There", "Elsewhere", list, ("Space",), page="two")
    actions = Actions([ran.action("a", "F1"), here, there])
    assert [(title, [one.id for one in members]) for title, members in actions.sections("one")] == [
        ("On the page", ["here"]),
        ("Some", ["a"]),
    ]
    window = QWidget()
    qtbot.addWidget(window)
    assert [made.key().toString() for made in actions.bind(window, ran.ids.append)] == ["F1"]


@pytest.fixture
def window(qtbot: QtBot, ran: Ran) -> QWidget:
    """A window with a key that is a letter and one that is not, and three kinds of fields."""
    made = QWidget()
    qtbot.addWidget(made)
    column = QVBoxLayout(made)
    for field in (QLineEdit(), QPlainTextEdit(), QSpinBox(), QPushButton("button")):
        column.addWidget(field)
    made.actions_of_test = Actions([ran.action("sheet", "F1", "?"), ran.action("find", "Ctrl+F")])  # type: ignore[attr-defined]
    made.actions_of_test.bind(made, ran.refusals.append)  # type: ignore[attr-defined]
    made.show()
    qtbot.waitExposed(made)
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    return made


def test_keys_run_and_refuse(qtbot: QtBot, window: QWidget, ran: Ran) -> None:
    button = window.findChild(QPushButton)
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_F1)
    qtbot.keyClick(button, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(button, "?")  # a platform drops the Shift that the layout needs to write it
    assert ran.ids == ["sheet", "find", "sheet"]
    ran.reason = "Not now."
    qtbot.keyClick(button, Qt.Key.Key_F1)
    assert ran.ids == ["sheet", "find", "sheet"]
    assert ran.refusals == ["Not now."]


@pytest.mark.parametrize("kind", [QLineEdit, QPlainTextEdit, QSpinBox])
def test_a_question_mark_is_text_in_a_text_field(qtbot: QtBot, window: QWidget, ran: Ran, kind: type[QWidget]) -> None:
    field = window.findChild(kind)
    field.setFocus()
    qtbot.keyClick(field, "?")
    assert ran.ids == []
    if isinstance(field, QLineEdit):
        assert field.text() == "?"
    if isinstance(field, QPlainTextEdit):
        assert field.toPlainText() == "?"
    qtbot.keyClick(field, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert ran.ids == ["find"]
