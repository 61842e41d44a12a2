"""The Race page in the real window with a real embedded model: a race from its prompt to its replay and its runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import INSPECTOR, RACE
from app.inspector.export_dialog import ExportDialog
from app.race.controller import RaceController
from app.state.race.prompts import LaneSpec
from app.window.main_window import MainWindow
from engine import MINI, open_trace

RUN_MS = 180_000
PROMPT = "Reverse the word robot."


@pytest.fixture
def window(window_with: Callable[[str], MainWindow]) -> MainWindow:
    window = window_with(MINI)
    window.context.values.reduced_motion = True  # nothing plays by itself
    window.context.apply_values()
    window.show_page(RACE)
    return window


@pytest.fixture
def page(window: MainWindow) -> RaceController:
    found = window.pages[RACE]
    assert isinstance(found, RaceController)
    return found


def idle(qtbot: QtBot, page: RaceController) -> None:
    one = page.page
    qtbot.waitUntil(lambda: not page.is_busy and not one.reader.is_busy, timeout=RUN_MS)


def test_a_race_is_run_replayed_compared_and_exported(qtbot: QtBot, window: MainWindow, page: RaceController) -> None:
    one = page.page
    page.lanes.change(1, LaneSpec(MINI, "autoregressive", {"max_new_tokens": 12}))
    one.field.setPlainText(PROMPT)
    qtbot.keyClick(one.field, Qt.Key.Key_Return)
    assert page.is_busy
    assert one.stop.isVisible()
    idle(qtbot, page)
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
    assert [lane.moments[-1] for lane in lanes] == [lane.figures for lane in lanes]
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
