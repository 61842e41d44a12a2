"""Tool tips show texts from outside as they are, over whatever widget of a window they come up."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QListWidget, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from app.design.controls import TIP_SIGNS, Elided, folded
from app.design.stylesheet import chrome
from app.design.tokens import DARKROOM
from app.pictures.bar import PictureThumb
from app.pictures.source import PictureSource
from app.state.chat.attachment import AttachedPicture

MARKUP = "<img src='file://elsewhere/share/x.png'> &amp; <b>\nand more"
APP = Path(__file__).resolve().parents[3] / "app"


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    made.setStyleSheet(chrome(DARKROOM))
    made.show()
    return made


def tip_over(widget: QWidget, at: QPoint) -> QLabel:
    """The label that comes up where the pointer rests."""
    QToolTip.hideText()
    QApplication.sendEvent(widget, QHelpEvent(QEvent.Type.ToolTip, at, widget.mapToGlobal(at)))
    (found,) = [
        made
        for made in QApplication.allWidgets()
        if isinstance(made, QLabel) and made.metaObject().className() == "QTipLabel" and made.isVisible()
    ]
    return found


def test_a_tip_is_never_read_as_markup(window: QWidget) -> None:
    dialog, listed = QDialog(window), QListWidget(window)
    dialog.show()
    listed.addItem("a")
    listed.item(0).setToolTip(MARKUP)
    listed.show()
    over = [(listed.viewport(), listed.visualItemRect(listed.item(0)).center())]
    for parent in (window, dialog):
        made = QWidget(parent)
        made.setToolTip(MARKUP)
        made.show()
        over.append((made, QPoint(1, 1)))
    for widget, at in over:
        tip = tip_over(widget, at)
        assert (tip.text(), tip.textFormat()) == (MARKUP, Qt.TextFormat.PlainText)
    QToolTip.hideText()


def test_names_of_a_stranger_stay_as_they_are(qtbot: QtBot) -> None:
    thumb = PictureThumb(AttachedPicture(MARKUP, "0" * 64, 3, 2), PictureSource(lambda *_: None), 48)
    title = Elided("title")
    for made in (thumb, title):
        qtbot.addWidget(made)
    title.set_whole(MARKUP)
    qtbot.waitUntil(lambda: not thumb._loading.is_busy)
    assert MARKUP.partition("\n")[0] in thumb.toolTip()
    assert title.toolTip() == MARKUP


def test_a_long_line_is_folded() -> None:
    words = "as it was " * 20
    assert folded("a", words) == "a\n" + folded(words)
    assert max(map(len, folded(words, "x" * 200).splitlines())) <= TIP_SIGNS
    assert folded("<b>a  &amp;") == "<b>a  &amp;"


def test_no_label_is_made_that_could_read_markup() -> None:
    """Labels come from ``app.design.controls``, and questions from ``app.design.notice``, where they are plain."""
    makers = {"controls.py": {"QLabel"}, "notice.py": {"QMessageBox", "QInputDialog"}, "guide.py": {"QTextBrowser"}}
    unsafe = {"QLabel", "QMessageBox", "QTextBrowser", "QErrorMessage", "QInputDialog", "QProgressDialog"}
    for path in APP.rglob("*.py"):
        source = path.read_text("utf-8")
        if not any(name in source for name in unsafe):
            continue
        calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
        made = {call.id for call in calls if isinstance(call, ast.Name)} & unsafe
        assert made <= makers.get(path.name, set()), path
