"""A text on screen: what is drawn, selected, copied, reached by keys; and that nothing is loaded or opened unasked."""

from __future__ import annotations

import builtins
import socket
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.chat.markdown_view import widget
from app.chat.markdown_view.controls import OpenLink
from app.chat.markdown_view.document import InertDocument
from app.chat.markdown_view.sheet import MAX_IN_SECTION, MAX_LINES, MAX_SHOWN, shown_part
from app.chat.markdown_view.widget import MarkdownView
from tests.app.chat.settled import copy_buttons, is_settled

RICH = """# Title

Some **bold** text that goes on for long enough to need a second line where there is little room,
with [a link](https://example.org/there) and $x^2$.

- [x] done
- [ ] open

```python
def f():
    return 1  # a remark that is much too long for the width of the block and so has to be scrolled to be read
```

| a | b |
|---|---|
| 1 | 2 |

$$\\frac{a}{b}$$
"""


@pytest.fixture
def prose(qtbot: QtBot) -> MarkdownView:
    """A widget on the screen, 480 pixels wide."""
    host = QWidget()
    column = QVBoxLayout(host)
    made = MarkdownView("Answer")
    column.addWidget(made)
    column.addStretch(1)
    qtbot.addWidget(host)
    made.host = host  # type: ignore[attr-defined] # else Python lets go of it
    host.resize(500, 900)
    host.show()
    return made


def refuse(*_args: object, **_more: object) -> None:
    raise AssertionError("this must not happen")


def draw(prose: MarkdownView) -> None:
    """Lay out and paint it."""
    QApplication.sendPostedEvents()
    assert not prose.host.grab().isNull()  # type: ignore[attr-defined]


def settle(qtbot: QtBot, prose: MarkdownView) -> None:
    """Wait until all of it is laid out, drawn and coloured."""
    qtbot.waitUntil(lambda: is_settled(prose), timeout=30_000)


def shown(prose: MarkdownView) -> str:
    return "\n".join(section.document.toPlainText() for section in prose.sections)


def test_markdown_is_drawn_not_shown_as_source(prose: MarkdownView) -> None:
    prose.set_text(RICH)
    assert prose.text() == RICH
    assert "**" not in shown(prose)
    assert prose.accessibleName() == "Answer"
    assert prose.accessibleDescription() == RICH
    assert prose.heightForWidth(480) > prose.heightForWidth(2000) > 200


def test_right_to_left_paragraphs_begin_at_the_right(prose: MarkdownView) -> None:
    prose.set_text("שלום עולם\n\nhello\n\n- פריט")
    document = prose.sections[0].document
    blocks = [document.findBlockByNumber(number) for number in range(document.blockCount())]
    directions = [block.blockFormat().layoutDirection() for block in blocks]
    right, left = Qt.LayoutDirection.RightToLeft, Qt.LayoutDirection.LeftToRight
    assert directions == [right, left, right]
    assert document.lastBlock().blockFormat().rightMargin() > 0


def test_a_hundred_kilobytes_are_cut_until_all_is_asked_for(qtbot: QtBot, prose: MarkdownView) -> None:
    text = "wordy " * 16_999 + "words."
    prose.set_text(text)
    assert prose.show_all.text() == "Show all 102,000 characters"
    assert len(shown(prose)) <= MAX_SHOWN
    qtbot.mouseClick(prose.show_all, Qt.MouseButton.LeftButton)
    assert not prose.show_all.isVisible()
    settle(qtbot, prose)
    assert len(shown(prose)) == len(text)
    prose.copy()
    assert QGuiApplication.clipboard().text() == text


def test_a_cut_is_made_between_lines() -> None:
    lines = ["x" * 99] * 400
    assert shown_part("\n".join(lines)) == "\n".join(lines[:240])
    assert shown_part("short") == "short"
    assert shown_part("- a\n" * 9000) == "\n".join(["- a"] * MAX_LINES)


def test_every_program_has_its_copy_button(prose: MarkdownView) -> None:
    prose.set_text("```python\nprint('a')\n```\n\ntext\n\n```\nplain\n```")
    first, second = copy_buttons(prose)
    assert first.accessibleName() == "Copy code, python"
    assert second.accessibleName() == "Copy code"
    second.click()
    assert QGuiApplication.clipboard().text() == "plain"
    first.click()
    assert QGuiApplication.clipboard().text() == "print('a')"
    assert first.text() == "Copied"


def test_wide_code_scrolls_within_its_block(prose: MarkdownView) -> None:
    prose.set_text(RICH)
    draw(prose)
    section = next(section for section in prose.sections if section.code is not None)
    (bar,) = [bar for bar in prose.tab_stops() if bar.accessibleName() == "Scroll the code sideways"]
    assert section.document.blockCount() == 2
    assert section.overflow > 0
    assert section.rect.right() <= prose.width()
    bar.setValue(30)  # type: ignore[attr-defined]
    assert section.scrolled == 30


def test_selection_runs_through_all_of_it(qtbot: QtBot, prose: MarkdownView) -> None:
    prose.set_text(RICH)
    prose.setFocus()
    qtbot.keyClick(prose, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(prose, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    copied = QGuiApplication.clipboard().text()
    for wanted in ("Title", "a link and $x^2$.", "☑ done", "def f():\n    return 1", "a\tb\n1\t2", r"$$\frac{a}{b}$$"):
        assert wanted in copied


def test_dragging_selects_and_a_double_click_takes_a_word(qtbot: QtBot, prose: MarkdownView) -> None:
    prose.set_text("one two\n\n```\nthree\n```")
    draw(prose)
    start, end = QPoint(9, 8), QPoint(prose.width() - 20, prose.height() - 14)
    qtbot.mousePress(prose, Qt.MouseButton.LeftButton, pos=start)
    move(prose, end)
    qtbot.mouseRelease(prose, Qt.MouseButton.LeftButton, pos=end)
    assert prose.selected_text() == "one two\n\nthree"
    qtbot.mouseDClick(prose, Qt.MouseButton.LeftButton, pos=QPoint(12, 8))
    assert prose.selected_text() == "one"


def move(over: QWidget, to: QPoint) -> None:
    left = Qt.MouseButton.LeftButton
    event = QMouseEvent(
        QEvent.Type.MouseMove, QPointF(to), over.mapToGlobal(QPointF(to)), left, left, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(over, event)


def test_a_link_is_opened_only_after_a_yes(qtbot: QtBot, prose: MarkdownView, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    prose.set_text("[here](https://example.org/there) and more")
    draw(prose)
    qtbot.mouseClick(prose, Qt.MouseButton.LeftButton, pos=QPoint(14, 10))
    (dialog,) = prose.window().findChildren(OpenLink)
    assert dialog.address == "https://example.org/there"
    assert opened == []
    dialog.cancel.click()
    assert opened == []
    dialog.open_it.click()
    assert opened == ["https://example.org/there"]


def test_tab_goes_through_links_and_buttons(qtbot: QtBot, prose: MarkdownView) -> None:
    prose.set_text("[a](https://a.org) [b](mailto:b@c.org)\n\n```\nx\n```")
    prose.window().activateWindow()
    prose.setFocus(Qt.FocusReason.TabFocusReason)
    for _ in range(2):
        qtbot.keyClick(prose, Qt.Key.Key_Tab)
        assert prose.hasFocus()
    qtbot.keyClick(prose, Qt.Key.Key_Return)
    (dialog,) = prose.window().findChildren(OpenLink)
    assert dialog.address == "mailto:b@c.org"
    dialog.reject()
    prose.setFocus()
    prose._links.to_last()
    qtbot.keyClick(prose, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is copy_buttons(prose)[0]


def test_nothing_is_loaded(prose: MarkdownView, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    picture = tmp_path / "secret.png"
    picture.write_bytes(b"x")
    prose.set_text("warm up `x` $a$ **b**\n\n```python\nx\n```")  # what is imported for reading is on the disk
    draw(prose)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(builtins, "open", refuse)
    asked: list[object] = []
    load = InertDocument.loadResource
    monkeypatch.setattr(InertDocument, "loadResource", lambda *a: asked.append(load(*a)))
    prose.set_text(
        f"![a]({picture.as_uri()}) <img src='{picture.as_uri()}'> ![b](https://x.org/b.png) [c]: http://x.org"
    )
    draw(prose)
    assert all(found is None for found in asked)
    assert picture.as_uri() in shown(prose)


def test_a_source_is_shown_until_its_picture_is_there(qtbot: QtBot, prose: MarkdownView) -> None:
    prose.set_text(
        "so $p+q$ is **selected** here\n\n| $p$ | b |\n|---|---|\n| $p+q$$r$ | 2 |\n\n$$\\frac{p}{q}$$\n\n$$\\frac{b$$"
    )
    assert "so $p+q$ is" in shown(prose)
    assert "$$\\frac{p}{q}$$" in shown(prose)
    prose.select_all()
    settle(qtbot, prose)
    assert [section.document.toPlainText() for section in prose.sections] == [
        "so \ufffc is selected here",
        "\n\ufffc\nb\n\ufffc\ufffc\n2\n",
        "\ufffc",
        "$$\\frac{b$$",  # cannot be drawn
    ]
    assert prose.selected_text() == ""  # its places are others now
    prose.select_all()
    texts = ["so $p+q$ is selected here", "$p$\tb\n$p+q$$r$\t2", "$$\\frac{p}{q}$$", "$$\\frac{b$$"]
    assert prose.selected_text() == "\n\n".join(texts)


def test_all_of_a_long_line_is_laid_out_in_bounded_pieces(
    qtbot: QtBot, prose: MarkdownView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widget, "AT_ONCE", 0.0)
    text = "x" * 20_000 + " y" * 4_000
    prose.set_text(text)
    prose.show_all.click()
    assert not prose._sheet.is_done  # the rest comes when there is nothing else to do
    prose.select_all()
    settle(qtbot, prose)
    assert max(len(section.document.toPlainText()) for section in prose.sections) <= MAX_IN_SECTION
    assert prose.selected_text() == text
