"""The chat page with a stand-in engine, without a window."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController, build
from app.context import AppContext
from engine import MINI


@pytest.fixture
def open_chat(qtbot: QtBot, open_context: Callable[..., AppContext]) -> Callable[..., ChatController]:
    def open_one(model: str | None = MINI) -> ChatController:
        context = open_context(model)
        made = build(context)
        context.said.connect(made.notice.show_message)
        qtbot.addWidget(made.widget)
        made.widget.resize(1000, 700)
        made.widget.show()
        return made

    return open_one
