"""One clock for lanes of different lengths."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.race.card import LONGEST_SECONDS, SHORTEST_SECONDS, RaceClock

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
