"""Text fields keep the characters that are typed, pasted and composed by an input method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage, QInputMethodEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.chat.composer.composer import Composer
from app.chat.controller import build
from app.chat.messages.changing import ChangePanel
from app.chat.messages.prompt_editor import PromptEditor
from app.context import AppContext
from app.design.action import Action, Actions
from app.design.drops import has_picture
from app.design.text_field import PlainText, TextField
from app.race.page import RacePage
from tests.app.conftest import Asked

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
    field.setReadOnly(True)
    before = field.raw()
    qtbot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert field.raw() == before


@pytest.mark.parametrize("text", [ODD, "a\r\nb\rc", "a\u2029b", "plain"])
def test_an_edit_that_changed_nothing_sends_nothing(qtbot: QtBot, shown: Shown, text: str) -> None:
    sent: list[str] = []
    closed: list[bool] = []
    editor = shown(PromptEditor(sent.append, lambda: closed.append(True)))
    editor.edit(text)
    qtbot.keyClick(editor.field, Qt.Key.Key_Return)
    assert (sent, closed) == ([], [True])
    qtbot.keyClicks(editor.field, "!")
    editor.send.click()
    assert sent == [text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2029", "\n") + "!"]


# ---------------------------------------------------------------- what an input method composes


def test_what_is_composed_is_sent(
    qtbot: QtBot, shown: Shown, open_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = build(open_context())
    sent: list[str] = []
    monkeypatch.setattr(chat.sending, "send", sent.append)
    composer = shown(chat.page).composer
    for send in (lambda: qtbot.keyClick(composer.edit, Qt.Key.Key_Return), composer.send.click):
        composer.set_text("hello ")
        compose(composer.edit, "にほん")
        send()
        assert composer.text == "hello にほん"
        assert not composer.edit.composed
    assert sent == ["hello にほん"] * 2
    composer.set_text("ab")
    composer.edit.moveCursor(composer.edit.textCursor().MoveOperation.Left)
    compose(composer.edit, "ん")
    composer.send.click()
    assert sent[2:] == ["aんb"]


def test_what_is_composed_is_in_an_edit_a_wish_and_a_race(qtbot: QtBot, shown: Shown) -> None:
    sent: list[str] = []
    editor = shown(PromptEditor(sent.append, lambda: None))
    editor.edit("hello ")
    compose(editor.field, "にほん")
    editor.send.click()
    panel = shown(ChangePanel())
    panel.picked.connect(lambda _kind, wish: sent.append(wish))
    panel.revised.connect(lambda _share, wish: sent.append(wish))
    for part, press in (("a part", panel.kinds[1]), ("", panel.revise)):
        panel.ask_about(part)
        compose(panel.wish, "短く")
        press.click()
    bar = shown(RacePage(QWidget(), Asked()))
    bar.race_asked.connect(sent.append)
    bar.show_doing(is_busy=False, message="", fault="", can_race=True)
    qtbot.keyClicks(bar.field, "a ")
    compose(bar.field, "ê")
    qtbot.keyClick(bar.field, Qt.Key.Key_Return)
    assert sent == ["hello にほん", "短く", "短く", "a ê"]


def test_what_is_composed_stays_when_the_focus_goes_or_a_key_acts(qtbot: QtBot, shown: Shown) -> None:
    composer = shown(Composer())
    composer.activateWindow()
    qtbot.waitUntil(composer.isActiveWindow)
    composer.edit.setFocus()
    compose(composer.edit, "にほん")
    assert not composer.is_empty
    composer.attach.setFocus()
    assert composer.text == "にほん"
    composer.edit.setFocus()
    compose(composer.edit, "ご")
    seen: list[str] = []
    Actions([Action("new", "New chat", "Chats", lambda: seen.append(composer.text), ("Ctrl+N",))]).run("new")
    assert seen == ["にほんご"]


# ---------------------------------------------------------------- what a clipboard with a picture pastes


PAGE = "https://an.example/a cat.png"


@pytest.mark.parametrize(
    ("text", "html", "urls", "pasted"),
    [
        (None, "", (), "picture"),
        ("", "<img src='x'>", (), "picture"),
        ("cell", "", (), "cell"),
        ("cell", "<td>cell</td>", (PAGE,), "cell"),
        (PAGE, "<img>", (PAGE,), "picture"),
        (f"see {PAGE}", "", (PAGE,), f"see {PAGE}"),
    ],
)
def test_text_is_pasted_unless_it_is_blank_or_the_picture_s_address(
    qtbot: QtBot, text: str | None, html: str, urls: tuple[str, ...], pasted: str
) -> None:
    field = TextField()
    qtbot.addWidget(field)
    field.takes_files = True
    pictures: list[QImage] = []
    field.picture_pasted.connect(pictures.append)
    data = QMimeData()
    data.setImageData(QImage(8, 4, QImage.Format.Format_RGB32))
    if text is not None:
        data.setText(text)
    if html:
        data.setHtml(html)
    if urls:
        data.setUrls([QUrl(url) for url in urls])
    assert field.canInsertFromMimeData(data)
    assert has_picture(data) == (pasted == "picture")
    field.insertFromMimeData(data)
    assert (len(pictures), field.raw()) == ((1, "") if pasted == "picture" else (0, pasted))
