"""The registry of actions: keys of all pages and of one, and what cannot be done."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QPushButton, QSpinBox, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.design.action import Action, Actions


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
