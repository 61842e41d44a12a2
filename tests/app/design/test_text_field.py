"""What stands in a field is what was typed, with its own characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QInputMethodEvent
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from app.chat.composer.composer import Composer
from app.chat.messages.prompt_editor import PromptEditor
from app.design.text_field import PlainText, TextField

ODD = "10\u00a0km\u2028a\u202fb\u200bc\u00add\u3000e"
Shown = Callable[[QWidget], Any]


@pytest.fixture
def shown(qtbot: QtBot) -> Iterator[Shown]:
    def show(widget: QWidget) -> QWidget:
        qtbot.addWidget(widget)
        widget.resize(400, 200)
        with qtbot.waitExposed(widget):
            widget.show()
        return widget

    yield show
    for composer in (widget for widget in QApplication.topLevelWidgets() if isinstance(widget, Composer)):
        qtbot.waitUntil(lambda composer=composer: not composer.meter.is_counting)


def compose(field: QWidget, text: str) -> None:
    """Compose a text at the cursor, as an input method does."""
    QApplication.sendEvent(field, QInputMethodEvent(text, []))


def ink(field: QPlainTextEdit) -> int:
    """Count the pixels that differ from the field's ground."""
    image = field.viewport().grab().toImage()
    ground = image.pixel(image.width() - 2, image.height() - 2)
    return sum(image.pixel(x, y) != ground for x in range(6, image.width() - 6) for y in range(4, 40))


def test_a_field_gives_the_characters_that_it_was_given(shown: Shown) -> None:
    field = shown(TextField())
    for text in (ODD, f"{ODD}\n\n{ODD}\n", "👩‍🔬\u00a0x", "", "\n"):
        field.setPlainText(text)
        assert field.raw() == text
    field.setPlainText("a\r\nb\rc\u2029d")
    assert field.raw() == "a\nb\nc\nd"


@pytest.mark.parametrize("make", [TextField, PlainText])
def test_a_copy_has_the_same_characters(shown: Shown, make: type[PlainText]) -> None:
    field = shown(make())
    field.setPlainText(f"{ODD}\n{ODD}")
    field.selectAll()
    field.copy()
    assert QGuiApplication.clipboard().text() == f"{ODD}\n{ODD}"
    other = shown(TextField())
    other.paste()
    assert other.raw() == f"{ODD}\n{ODD}"


def test_a_new_line_is_the_usual_line_break(qtbot: QtBot, shown: Shown) -> None:
    field = shown(TextField())
    for modifier in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier):
        qtbot.keyClicks(field, "a")
        qtbot.keyClick(field, Qt.Key.Key_Return, modifier)
    assert field.raw() == "a\na\n"
    field.undo()
    assert field.raw() != "a\na\n"
    field.setReadOnly(True)
    before = field.raw()
    qtbot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert field.raw() == before


def test_a_prompt_is_sent_and_walked_with_its_characters(qtbot: QtBot, shown: Shown) -> None:
    composer = shown(Composer())
    sent: list[str] = []
    composer.submitted.connect(sent.append)
    composer.set_text(ODD)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert sent == [ODD]
    composer.edit.history.remember(ODD)
    composer.set_text("the draft\u00a0")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Up)
    assert composer.text == ODD
    for _ in range(2):  # U+2028 begins a second row
        qtbot.keyClick(composer.edit, Qt.Key.Key_Down)
    assert composer.text == "the draft\u00a0"


@pytest.mark.parametrize("text", [ODD, "a\r\nb\rc", "a\u2029b", "plain"])
def test_an_edit_that_changed_nothing_sends_nothing(qtbot: QtBot, shown: Shown, text: str) -> None:
    sent: list[str] = []
    closed: list[bool] = []
    editor = shown(PromptEditor(sent.append, lambda: closed.append(True)))
    editor.begin(text)
    qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert (sent, closed) == ([], [True])
    qtbot.keyClicks(editor.field, "!")
    editor.send.click()
    assert sent == [text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2029", "\n") + "!"]
