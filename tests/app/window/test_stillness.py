"""Nothing moves under the pointer: what comes and goes has its room, or stands over the page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.context import CHAT, DECISIONS, INSPECTOR, MODELS, SERVER
from app.decisions.one.view import OneState
from app.design import themes
from app.window.main_window import MainWindow
from tests.app.window.test_replay import answer, ask

Open = Callable[..., MainWindow]


def place(window: QWidget, widget: QWidget) -> tuple[QPoint, int, int]:
    """The corner of a widget within its window, and its size."""
    return widget.mapTo(window, QPoint()), widget.width(), widget.height()


def test_a_message_stands_over_the_page(qtbot: QtBot, open_window: Open) -> None:
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


@pytest.mark.parametrize("page", [CHAT, MODELS, pytest.param(SERVER, marks=pytest.mark.slow)])
def test_the_notice_of_a_page_stands_over_it(qtbot: QtBot, open_window: Open, page: str) -> None:
    window = open_window()
    ask(qtbot, window, "hello")  # an empty chat changes by itself, as its first run arrives
    window.show_page(page)
    current = window.pages.current
    assert current is not None
    notice = current.notice or window.notices.notice
    if page == MODELS:  # which grows as the recommended model arrives
        qtbot.waitUntil(lambda: window.pages.models().page.hero.rows.count() == 1)
    qtbot.wait(1)
    parts = [child for child in current.widget.findChildren(QWidget) if child.isVisible()]
    before = [place(window, part) for part in parts]
    window.context.say("The model cannot be loaded. " * 12)
    qtbot.waitUntil(notice.isVisible)
    qtbot.wait(1)
    assert [place(window, part) for part in parts] == before
    assert notice.height() == notice.heightForWidth(notice.width())
    window.resize(window.width() - 120, window.height() - 60)
    qtbot.wait(1)
    corner, width, height = place(window, notice)
    stack = place(window, window.pages.stack)
    assert corner.y() + height <= stack[0].y() + stack[2]
    assert corner.x() + width <= stack[0].x() + stack[1]
    assert notice.height() == notice.heightForWidth(notice.width())


def test_the_end_of_a_chat_can_be_scrolled_above_its_notice(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    page = window.pages.chat().page
    ask(qtbot, window, *(f"hello {number}" for number in range(6)))
    again, bar = answer(window).again, page.scroller.verticalScrollBar()
    before = place(window, again)
    page.notice.show_undo("Deleted", lambda: None)
    qtbot.wait(1)
    assert place(window, again) == before
    bar.setValue(bar.maximum())
    qtbot.wait(1)
    scrolled = place(window, again)
    assert again.mapTo(page, QPoint(0, again.height())).y() <= page.notice.y()
    page.notice.dismiss.click()
    assert place(window, again) == scrolled
    bar.setValue(bar.value() - 1000)
    bar.setValue(bar.maximum())
    qtbot.wait(1)
    assert place(window, again) == before  # the room is gone


def test_ten_steps_of_the_text_size_dress_the_window_once(qtbot: QtBot, open_window: Open) -> None:
    window, dressed = open_window(), list[int]()
    heard = themes.changed.connect(lambda: dressed.append(window.appearance.preferences.text_percent))
    for _ in range(5):
        qtbot.keyClick(window, Qt.Key.Key_Plus, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: bool(dressed))
    themes.changed.disconnect(heard)
    assert dressed == [150]


def test_decide_stays_where_it_is_while_messages_come_and_go(qtbot: QtBot) -> None:
    view = OneState()
    qtbot.addWidget(view)
    view.resize(1200, 800)
    view.show()
    view.show_doing(is_busy=False, message="", fault="", can_decide=True, offer="")
    qtbot.wait(1)
    before = place(view, view.decide)
    view.show_doing(is_busy=False, message="It was not taught to decide. " * 6, fault="", can_decide=True, offer="")
    qtbot.waitUntil(view.message.isVisible)
    qtbot.wait(1)
    assert place(view, view.decide) == before
