"""A prompt asked in the window, and its answer awaited."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow


def ask(qtbot: QtBot, window: MainWindow, *prompts: str) -> None:
    """Enter each prompt in the chat's composer, and wait until it is answered."""
    composer = window.pages.chat().page.composer
    for prompt in prompts:
        composer.edit.setPlainText(prompt)
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: window.context.session.active is None)
