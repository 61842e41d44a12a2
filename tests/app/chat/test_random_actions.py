"""Long conversations under random actions: after each, the page shows the path, without a gap, as it is now.

``SAFELIGHT_CHAT_ACTIONS=2000 uv run pytest -n 0 tests/app/chat/test_random_actions.py`` makes a longer run of it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication
from pytestqt.exceptions import capture_exceptions
from pytestqt.qtbot import QtBot

from app.chat.controller import ChatController
from app.chat.messages.turn import TurnView
from app.design import themes
from app.design.controls import usable
from app.design.fonts import set_text_percent, text_percent
from app.design.tokens import DARKROOM, PAPER
from tests.app.chat.test_page import talk

ACTIONS = int(os.environ.get("SAFELIGHT_CHAT_ACTIONS", "32"))
FEW_TURNS = 6


class Walk:
    """One page, and a random generator that acts on it as a person could."""

    def __init__(self, qtbot: QtBot, controller: ChatController) -> None:
        self.qtbot, self.context, self.page = qtbot, controller._context, controller.page
        self.session = controller._session
        self.random = random.Random(0)
        self.actions: list[tuple[Callable[[], None], int]] = [
            (self.edit, 7),
            (self.version, 7),
            (self.again, 4),
            (self.revise, 4),
            (self.delete, 3),
            (self.undo, 3),
            (self.ask, 3),
            (self.context.stop, 1),
            (self.replay, 6),
            (self.scroll, 10),
            (self.key, 6),
            (self.resize, 4),
            (self.font, 2),
            (self.another_chat, 1),
        ]
        self.another_chat()

    def step(self) -> str:
        """Act once. Returns the name of the action."""
        chosen, weights = zip(*self.actions, strict=True)
        act = self.random.choices(chosen, weights)[0]
        if len(self.session.chat.turns) < FEW_TURNS and self.session.active is None:
            act = self.another_chat
        act()
        if self.random.random() < 0.7:  # else the next action comes before Qt has answered this one
            QApplication.processEvents()
        if self.random.random() < 0.5:
            self.qtbot.waitUntil(lambda: self.session.active is None, timeout=30_000)
        return act.__name__

    # ---------------------------------------------------------------- actions

    def view(self) -> TurnView | None:
        """A turn's view, one in sight rather than another."""
        views = [view for view in self.page._views() if not view.visibleRegion().isEmpty()]
        return self.random.choice(views or self.page._views() or [None])  # type: ignore[list-item]

    def click(self, button: QAbstractButton) -> None:
        """Press a button where it can be pressed, with the keyboard on it in half of all cases."""
        if usable(button):
            if self.random.random() < 0.5:
                button.setFocus()
            button.click()

    def edit(self) -> None:
        """Change a prompt in its place; now and then without sending it."""
        view = self.view()
        if view is None:
            return
        self.click(view.prompt.edit)
        editor = view.prompt.editor
        if editor is not None and self.random.random() < 0.8:
            editor.field.setPlainText(f"Edited {self.random.random()}\n" * self.random.randint(1, 5))
            if self.random.random() < 0.5:
                QApplication.processEvents()
            QTest.keyClick(editor.field, Qt.Key.Key_Return)

    def version(self) -> None:
        """Walk to another version of a prompt or an answer."""
        arrows = [
            arrow
            for view in self.page._views()
            for switch in (view.prompt.versions, view.answer.versions)
            for arrow in (switch.before, switch.after)
            if usable(arrow)
        ]
        if arrows:
            self.click(self.random.choice(arrows))

    def again(self) -> None:
        view = self.view()
        if view is not None:
            self.click(view.answer.again)

    def revise(self) -> None:
        """Revise an answer, or decide on the changes of a revision."""
        view = self.view()
        if view is None:
            return
        changing = view.answer.changing
        if changing.review is not None and changing.is_reviewing:
            self.click(self.random.choice((changing.review.use, changing.review.none, changing.review.all)))
            return
        self.click(view.answer.revise)
        if changing.panel is not None and changing.panel.isVisible():
            self.click(self.random.choice((changing.panel.revise, changing.panel.cancel)))

    def delete(self) -> None:
        view = self.view()
        if view is not None and self.session.chat.turns.index(view.turn) >= FEW_TURNS:
            self.click(view.prompt.delete)

    def undo(self) -> None:
        self.click(self.page.notice.undo)

    def ask(self) -> None:
        edit = self.page.composer.edit
        edit.setFocus()
        edit.setPlainText(f"Asked {self.random.random()}")
        QTest.keyClick(edit, Qt.Key.Key_Return)

    def replay(self) -> None:
        """Go to a frame of an answer's run, its end among them; one that is not read yet comes later."""
        shown = [view for view in self.page._views() if view.answer.replay.scrub.slider.isVisible()]
        if shown:
            scrub = self.random.choice(shown).answer.replay.scrub
            if self.random.random() < 0.5:
                self.click(scrub.back)
            else:
                scrub.slider.setValue(self.random.choice((0, scrub.slider.maximum() // 2, scrub.slider.maximum())))

    def scroll(self) -> None:
        bar = self.page.scroller.verticalScrollBar()
        by_wheel = bar.value() + self.random.randint(-400, 400)
        bar.setValue(self.random.choice((0, bar.maximum(), self.random.randint(0, max(1, bar.maximum())), by_wheel)))

    def key(self) -> None:
        """The keyboard walks through the page."""
        focus = QApplication.focusWidget()
        keys = (Qt.Key.Key_Tab, Qt.Key.Key_Backtab, Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_PageUp)
        for key in self.random.choices(keys, (4, 4, 1, 1, 2), k=self.random.randint(1, 4)):
            if focus is not None:
                QTest.keyClick(focus, key)
            focus = QApplication.focusWidget()

    def resize(self) -> None:
        self.page.resize(self.random.randint(420, 1100), self.random.randint(300, 900))

    def font(self) -> None:
        set_text_percent(self.random.choice((80, 100, 130, 200)))
        themes.publish(self.random.choice((DARKROOM, PAPER)))
        self.context.settings_changed.emit()

    def another_chat(self) -> None:
        if self.session.active is None:
            self.session.open_new()
            self.session.chat.first = talk(self.random.randint(8, 60), self.random.randint(0, 99)).first
            self.session.path_changed.emit()

    # ---------------------------------------------------------------- what must hold

    def check_parts(self) -> None:
        """Checks at any time that parts are the path, and each widget has its part."""
        scroller, turns = self.page.scroller, self.session.chat.turns
        assert scroller._items == turns
        assert set(scroller.views) <= set(turns)
        assert not turns or turns[-1] in scroller.views
        assert len(scroller._heights) == len(turns)

    def check_page(self) -> None:
        """Checks that what is in sight, once Qt is idle, has no gap and reads as the path does."""
        scroller, turns = self.page.scroller, self.session.chat.turns
        self.qtbot.waitUntil(lambda: self.session.active is None, timeout=30_000)
        for _ in range(3):
            QApplication.processEvents()
        self.qtbot.waitUntil(lambda: not scroller._late.isActive(), timeout=30_000)
        bar, page = scroller.verticalScrollBar(), scroller.viewport().height()
        assert self.page._pages.currentWidget() is scroller
        assert bar.maximum() == max(0, scroller._length + scroller._slack - page)
        assert scroller._column.width() == scroller.viewport().width()
        shown = [view for view in self.page._views() if view.visibleRegion().boundingRect().height() > 0]
        shown.sort(key=lambda view: turns.index(view.turn))
        tops = [view.mapTo(scroller.viewport(), view.rect().topLeft()).y() for view in shown]
        assert shown, "the page is blank"
        assert tops[0] <= 0
        for (above, top), (below, next_top) in pairwise(zip(shown, tops, strict=True)):
            assert turns.index(below.turn) == turns.index(above.turn) + 1
            assert next_top == top + above.height()
        bottom = tops[-1] + shown[-1].height()
        assert bottom >= page or shown[-1].turn is turns[-1]
        for view in shown:
            assert view.height() == view.heightForWidth(view.width())
            assert view.prompt.prose.text() == view.turn.prompt
            if view.answer.text.isVisibleTo(self.page):
                assert view.answer.text.text() == view.turn.answer.text


def test_the_page_shows_the_path_whatever_is_done_in_whatever_order(
    qtbot: QtBot, open_chat: Callable[..., ChatController], fake: Any
) -> None:
    percent = text_percent()
    controller = open_chat()
    fake.blocks = 2
    controller.widget.activateWindow()
    walk, done = Walk(qtbot, controller), [""]
    try:
        for number in range(ACTIONS):
            with capture_exceptions() as raised:
                done.append(walk.step())
            assert not raised, f"{raised} after {number} actions, the last ones {done[-5:]}"
            walk.check_parts()
            if number % 4 == 3:
                walk.check_page()
    finally:
        set_text_percent(percent)
