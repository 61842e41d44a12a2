"""The Race page with a stand-in engine: its lanes, their faults, Stop, further models, and its clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.race.card import LONGEST_SECONDS, SHORTEST_SECONDS, RaceClock
from app.race.controller import RaceController
from app.state.race.prompts import LaneSpec
from engine import BASE, MINI, WEDLM
from engine.catalog import SMALL
from tests.app.canvas.pointing import shown
from tests.fake_engine import FakeEngine

Open = Callable[..., AppContext]
SHORT = LaneSpec(MINI, changes={"max_denoising_steps": 2})


@pytest.fixture
def page(qtbot: QtBot, fake: FakeEngine, open_context: Open) -> RaceController:
    """The page with two lanes that differ by a setting."""
    fake.decoders = ("autoregressive", "block_diffusion")
    made = RaceController(open_context())
    shown(qtbot, made.page, 1000, 800)
    return made


def idle(qtbot: QtBot, page: RaceController) -> None:
    qtbot.waitUntil(lambda: not page.is_busy and not page.page.reader.is_busy)


def test_lanes_are_added_changed_and_removed(qtbot: QtBot, page: RaceController) -> None:
    lanes, one = page.lanes, page.page
    qtbot.waitUntil(lanes.add.isEnabled, timeout=30_000)  # the last lane's decoders are read
    assert lanes.titles[1] == "Safelight WeDLM · Autoregressive"
    assert [row.isVisible() for row in lanes.rows] == [True, True, False, False]
    assert not lanes.rows[0].remove.isVisible()
    lanes.add.click()
    assert lanes.specs[2] == LaneSpec(WEDLM, "causal_parallel")
    assert len(one.cards) == 3
    row = lanes.rows[2]
    row.model.setCurrentIndex(row.model.findData(MINI))
    row.model.activated.emit(0)
    assert lanes.specs[2] == LaneSpec(MINI)
    row.decoder.setCurrentIndex(row.decoder.findData("block_diffusion"))
    row.decoder.activated.emit(0)
    assert lanes.specs[2] == lanes.specs[0]
    assert lanes.note.text().startswith("Lanes 1 and 3 are the same.")
    one.field.setPlainText("abc")
    assert not one.race.isEnabled()
    lanes.change(2, LaneSpec(BASE))
    assert lanes.rows[2].adapter.isVisible()
    lanes.rows[2].adapter.setCurrentIndex(1)
    lanes.rows[2].adapter.activated.emit(1)
    assert lanes.specs[2] == LaneSpec(BASE, "", adapter="sudoku-lora")
    qtbot.waitUntil(lanes.add.isEnabled, timeout=30_000)
    lanes.add.click()
    assert not lanes.add.isVisible()
    lanes.rows[3].remove.click()
    assert one.race.isEnabled()


def test_a_lane_is_one_model(page: RaceController) -> None:
    page._context.slot.offer([(SMALL, "Small models"), ("/models/mine", "Mine")])
    offered = page.lanes.rows[0].model
    assert offered.findData("/models/mine") > 0
    assert offered.findData(SMALL) < 0


def test_a_race_fills_its_lanes(qtbot: QtBot, page: RaceController) -> None:
    one = page.page
    page.lanes.change(1, SHORT)
    one.field.setPlainText("first")
    one.race.click()
    idle(qtbot, page)
    assert one.clock.is_playing  # it was too short to be watched
    one.clock.go(one.clock.end)
    one.clock.pause()
    assert [card.figures.cells[0].text() for card in one.cards] == ["5", "5"]
    assert one.cards[1].figures.cells[-1].text() == "100.0 %"
    assert "same text" in one.headline.text()
    page.lanes.change(0, LaneSpec(BASE))
    assert one.shown is None
    assert one.cards[0].canvas.block is None


def test_a_race_can_be_stopped(qtbot: QtBot, fake: FakeEngine, page: RaceController) -> None:
    fake.hold = True
    one = page.page
    page.lanes.change(1, SHORT)
    one.field.setPlainText("a long one")
    qtbot.keyClick(one.field, Qt.Key.Key_Return)
    assert page.reason_to_wait() != ""
    assert not page.lanes.rows[0].isEnabled()
    one.stop.click()
    fake.hold = False
    fake.gate.release(10)
    idle(qtbot, page)
    assert one.message.text() == "Stopped before the end."
    assert one.fault.isHidden()
    assert one.race.isEnabled()


def test_other_models_are_loaded_in_addition_and_what_fails_is_said(
    qtbot: QtBot, fake: FakeEngine, page: RaceController
) -> None:
    one, lanes = page.page, page.lanes
    lanes.change(1, LaneSpec(BASE))
    qtbot.waitUntil(lambda: lanes.titles[1] == "Safelight Base · Block diffusion")
    one.field.setPlainText("abc")
    one.race.click()
    idle(qtbot, page)
    assert one.fault.text() == ""
    assert [lane.reason for lane in one.shown.run.lanes] == ["eos", "eos"]
    fake.fail_at = 1
    page.race("again")
    idle(qtbot, page)
    assert "the graphics card" in one.cards[0].problem.text()
    lanes.change(1, LaneSpec("missing"))
    qtbot.waitUntil(lambda: lanes.note.text().startswith("Lane 2: there is no model at missing"))
    assert not one.race.isEnabled()


FAST, SLOW = [0.0, 0.1, 0.2], [0.0, 0.15, 0.3, 0.45, 0.6]


def places(clock: RaceClock, lanes: int = 2) -> list[int]:
    return [clock.place(lane) for lane in range(lanes)]


@pytest.mark.usefixtures("qapp")
def test_each_lane_shows_the_frame_of_its_own_seconds() -> None:
    clock = RaceClock()
    clock.open([FAST, SLOW, []])
    assert (clock.end, places(clock, 3)) == (0.6, [2, 4, -1])
    clock.go(0.16)
    assert places(clock) == [1, 1]
    clock.step(1)
    assert (clock.seconds, places(clock)) == (0.2, [2, 1])
    clock.step(-1)
    assert (clock.seconds, places(clock)) == (0.15, [1, 1])
    clock.go(-1)
    clock.step(-1)
    assert (clock.seconds, places(clock)) == (0.0, [0, 0])
    clock.go(9)
    clock.step(1)
    assert clock.is_at_end
    clock.open([])
    clock.toggle()
    assert (clock.end, clock.is_playing) == (0.0, False)


def test_a_race_is_played_as_long_as_it_can_be_watched(qtbot: QtBot) -> None:
    now = [0.0]
    clock = RaceClock(now=lambda: now[0])
    clock.open([[0.0, 90.0]])
    assert clock.end / clock.rate == LONGEST_SECONDS
    clock.open([FAST, SLOW])
    assert clock.end / clock.rate == SHORTEST_SECONDS
    clock.toggle()
    assert (clock.is_playing, clock.seconds) == (True, 0.0)
    now[0] = SHORTEST_SECONDS / 2
    qtbot.waitUntil(lambda: clock.seconds > 0)
    assert places(clock) == [2, 2]
    now[0] = SHORTEST_SECONDS
    qtbot.waitUntil(lambda: not clock.is_playing)
    assert places(clock) == [2, 4]
