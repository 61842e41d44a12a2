"""A message is over the page, so that no part of the page moves under the pointer."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.context import CHAT, DECISIONS, INSPECTOR
from app.window.main_window import MainWindow

Open = Callable[..., MainWindow]


def place(window: QWidget, widget: QWidget) -> tuple[QPoint, int, int]:
    """The corner of a widget within its window, and its size."""
    return widget.mapTo(window, QPoint()), widget.width(), widget.height()


def test_a_message_is_over_the_page(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    window.show_page(INSPECTOR)
    page, notice = window.pages.stack.currentWidget(), window.notices.notice
    qtbot.wait(1)
    before = place(window, page)
    window.context.say("Something went wrong. " * 20)
    qtbot.waitUntil(notice.isVisible)
    assert place(window, page) == before
    stack = place(window, window.pages.stack)
    corner, width, height = place(window, notice)
    assert (corner.x(), width) == (stack[0].x(), stack[1])
    assert corner.y() + height == stack[0].y() + stack[2]
    message = notice.message
    assert message.height() >= message.heightForWidth(message.width()) > 0
    window.show_page(DECISIONS)  # made now, so that it is the newest of the window's widgets
    window.context.say("Something else.")
    at = notice.mapTo(window, notice.rect().center())
    shown = window.childAt(at)
    assert shown is not None
    assert shown is notice or notice.isAncestorOf(shown)
    window.resize(window.width() - 60, window.height() - 40)
    qtbot.waitUntil(lambda: notice.width() == window.pages.stack.width())
    window.show_page(CHAT)
    assert not notice.isVisible()
