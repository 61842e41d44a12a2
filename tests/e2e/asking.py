"""A prompt entered in the real window, and its answer awaited."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.state.chat.conversation import Answer
from app.window.main_window import MainWindow

RUN_MS = 180_000


def enter(qtbot: QtBot, window: MainWindow, text: str) -> None:
    composer = window.pages.chat().page.composer
    composer.set_text(text)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)


def ask(qtbot: QtBot, window: MainWindow, text: str) -> Answer:
    """Enters a prompt, and returns its whole answer."""
    count = len(window.context.session.chat.turns)
    enter(qtbot, window, text)
    qtbot.waitUntil(lambda: len(window.context.session.chat.turns) > count, timeout=RUN_MS)
    return idle(qtbot, window)


def idle(qtbot: QtBot, window: MainWindow) -> Answer:
    """Waits until nothing is being written, and returns the last answer."""
    session = window.context.session
    qtbot.waitUntil(lambda: bool(session.chat.turns) and session.active is None, timeout=RUN_MS)
    return session.chat.turns[-1].answer


def focused() -> QWidget:
    widget = QApplication.focusWidget()
    assert widget is not None
    return widget
