"""The Decisions page in the real window with the real embedded model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import DECISIONS
from app.decisions.controller import DecisionsController
from app.state.decisions.drafts import samples
from app.window.main_window import MainWindow
from engine import MINI

RUN_MS = 180_000


def test_a_state_is_decided_singly_jointly_and_inspected(
    qtbot: QtBot, window_with: Callable[[str], MainWindow]
) -> None:
    window = window_with(MINI)
    window.show_page(DECISIONS)
    page = window.pages[DECISIONS]
    assert isinstance(page, DecisionsController)

    def idle() -> None:
        qtbot.waitUntil(lambda: not page.is_busy, timeout=RUN_MS)

    one = page.page
    assert one.column.state.toPlainText() == samples()[0].state
    one.column.joint.setChecked(False)
    one.questions.show_drafts(one.questions.drafts[:1])
    qtbot.keyClick(one.column.state, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    idle()
    (card,) = one.questions.cards
    assert card.answer is not None
    assert sum(card.answer.probabilities) == pytest.approx(1.0)
    assert card.facts.text() != ""
    assert list(one.strip.slots) == [0]  # a single question's is the first token
    assert one.strip.canvas.block is not None
    assert one.strip.canvas.block.length == 16

    one.column.examples.activated.emit(0)
    one.column.joint.setChecked(True)
    assert card.answer is None
    one.decide.click()
    idle()
    first = [card.answer for card in one.questions.cards]
    assert [answer is not None for answer in first] == [True] * 3
    assert sorted(one.strip.slots.values()) == [1, 2, 3]
    one.strip.canvas.selected = next(position for position, number in one.strip.slots.items() if number == 2)
    assert [bool(card.property("chosen")) for card in one.questions.cards] == [False, True, False]
    one.decide.click()
    idle()
    assert [card.answer for card in one.questions.cards] == first  # same request, same answer

    one.strip.inspect.click()
    inspector = window.pages.inspector().page
    assert window.pages.stack.currentWidget() is inspector
    assert inspector.player.trace is not None
    assert len(inspector.player.trace.header.slots) == 3
    window.show_page(DECISIONS)
    one.questions.show_drafts([draft.as_kind("choice") for draft in one.questions.drafts])
    one.decide.click()
    assert not page.is_busy
    assert one.questions.cards[1].editor is not None
    assert not one.questions.cards[1].editor.problem.isHidden()
