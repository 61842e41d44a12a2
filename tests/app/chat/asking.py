"""A prompt entered on the chat page, and its answer awaited."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.state.chat.conversation import Answer


def enter(qtbot: QtBot, chat: ChatController, text: str) -> None:
    edit = chat.page.composer.edit
    edit.set_text(text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


def answered(qtbot: QtBot, chat: ChatController, turns: int = 1) -> list[Answer]:
    """Waits until the chat has so many turns and nothing is being written; returns their answers."""
    session = chat._session
    qtbot.waitUntil(lambda: len(session.chat.turns) == turns and session.active is None, timeout=20_000)
    return [turn.answer for turn in session.chat.turns]
