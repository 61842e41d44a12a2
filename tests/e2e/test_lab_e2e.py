"""The pages Race and Decisions in the real window with the real embedded model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import DECISIONS, INSPECTOR, RACE
from app.decisions.controller import DecisionsController
from app.inspector.export_dialog import ExportDialog
from app.race.controller import RaceController
from app.state.decisions.drafts import samples
from app.state.race.prompts import LaneSpec
from app.window.main_window import MainWindow
from engine import MINI, open_trace

RUN_MS = 180_000
PROMPT = "Reverse the word robot."


def race_replay_compare_and_export(qtbot: QtBot, window: MainWindow) -> None:
    window.context.values.reduced_motion = True  # nothing plays by itself
    window.context.apply_values()
    window.show_page(RACE)
    page = window.pages[RACE]
    assert isinstance(page, RaceController)
    one = page.page
    page.lanes.change(1, LaneSpec(MINI, "autoregressive", {"max_new_tokens": 12}))
    one.field.setPlainText(PROMPT)
    qtbot.keyClick(one.field, Qt.Key.Key_Return)
    assert page.is_busy
    assert one.stop.isVisible()
    qtbot.waitUntil(lambda: not page.is_busy and not one.reader.is_busy, timeout=RUN_MS)
    first, second = one.cards
    assert (first.text.toPlainText(), first.verdict.text()) == ("tobor", "✓ right")
    assert len(second.text.toPlainText()) == 12
    assert second.verdict.text() == "✗ wrong"
    assert [cell.text() for cell in second.figures.cells[:3]] == ["12", "12", "1.00"]
    assert second.figures.cells[-1].text().endswith("%")
    assert one.headline.text() == "Block diffusion: the only right answer."

    assert one.shown is not None
    lanes, clock = one.shown.run.lanes, one.clock
    assert [len(lane.moments) for lane in lanes] == [len(one.shown.replay(place).frames) for place in range(2)]  # type: ignore[union-attr]
    assert clock.end == max(lane.figures.seconds for lane in lanes)
    ends = [lane.figures.seconds for lane in lanes]
    faster, slower = sorted(one.cards, key=lambda card: ends[one.cards.index(card)])
    clock.go((min(ends) + max(ends)) / 2)
    assert faster.canvas.block is not None
    assert faster.canvas.block.committed
    assert slower.canvas.block is not None
    assert not slower.canvas.block.committed
    qtbot.keyClick(one.bar.slider, Qt.Key.Key_Right)
    assert clock.seconds > (min(ends) + max(ends)) / 2
    clock.go(0)
    assert [card.canvas.block.step for card in one.cards if card.canvas.block is not None] == [-1, -1]
    clock.go(clock.end)

    first.export.click()
    (dialog,) = window.findChildren(ExportDialog)
    assert dialog.isVisible()
    dialog.reject()
    second.compare.click()
    inspector = window.pages.inspector()
    assert window.pages.current is inspector
    assert inspector.page.player.trace is lanes[1].trace
    assert inspector.compare.trace is lanes[0].trace
    assert inspector.compare.both.isVisible()
    for lane in lanes:
        assert lane.trace is not None
        assert lane.trace.path is not None
        assert open_trace(lane.trace.path).prompt == lane.trace.prompt
    window.show_page(RACE)
    first.inspect.click()
    assert window.pages.current is window.pages[INSPECTOR]
    assert inspector.page.player.trace is lanes[0].trace


def decide_singly_and_jointly_and_inspect(qtbot: QtBot, window: MainWindow) -> None:
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


def test_a_race_is_run_and_a_text_is_decided(qtbot: QtBot, window_with: Callable[[str], MainWindow]) -> None:
    window = window_with(MINI)
    race_replay_compare_and_export(qtbot, window)
    decide_singly_and_jointly_and_inspect(qtbot, window)
