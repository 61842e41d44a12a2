"""A drawing is dropped into the chat, and the embedded model that sees answers questions about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow
from engine import SIGHT
from engine.tasks import drawings

RUN_MS = 120_000
SCENE = drawings.Scene(
    (250, 250, 250),
    (
        drawings.DrawnShape("star", "red", drawings.COLOURS["red"], 0.3, 0.3, 0.13, 0.0),
        drawings.DrawnShape("circle", "blue", drawings.COLOURS["blue"], 0.7, 0.65, 0.12, 0.0),
    ),
)


@pytest.fixture
def drawing(tmp_path: Path) -> Path:
    """Larger than the model reads it, as most pictures are."""
    path = tmp_path / "drawing.png"
    Image.fromarray(drawings.draw(SCENE, 3 * drawings.SIDE)).save(path)
    return path


def test_a_dropped_drawing_is_seen(qtbot: QtBot, window_with: Callable[[str], MainWindow], drawing: Path) -> None:
    window = window_with(SIGHT)
    chat = window.pages.chat()
    for question, answer in (("What colour is the star?", "red"), ("What shape is blue?", "circle")):
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(drawing))])
        copying, button, key = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        chat.page.dropEvent(QDropEvent(QPointF(10, 10), copying, data, button, key))
        qtbot.waitUntil(lambda: not chat.page.composer.pictures.is_reading)
        qtbot.keyClicks(chat.page.composer.edit, question)
        qtbot.keyClick(chat.page.composer.edit, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: window.context.session.active is None, timeout=RUN_MS)
        turn = window.context.session.chat.turns[-1]
        assert turn.answer.text == answer
        assert turn.answer.trace is not None
        assert len(turn.answer.trace.pictures) == 1
    follow_up, answer = "What shape is red?", "star"
    qtbot.keyClicks(chat.page.composer.edit, follow_up)
    qtbot.keyClick(chat.page.composer.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.context.session.active is None, timeout=RUN_MS)
    turns = window.context.session.chat.turns
    assert turns[-1].answer.text == answer
    assert turns[-1].pictures == turns[-2].pictures
