"""Frames are shown as long as they should be, by a clock that the test turns."""

from __future__ import annotations

import itertools

import pytest

from app.state.run.pace import (
    FULL_SPEED,
    LONGEST_SECONDS,
    NOISE_SECONDS,
    SHORTEST_SECONDS,
    Schedule,
    SpeedClock,
    block_seconds,
    frame_seconds,
)
from app.state.run.replay import NOISE


class Hands:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def play(schedule: Schedule, hands: Hands, arrivals: list[float], *, whole_at: float) -> list[float]:
    """When each frame of a block is shown: its noise, its steps, which arrive at these seconds, and its commit."""
    start, shown = hands.time, []
    schedule.begin()
    shown.append(0.0)
    for place, arrival in enumerate(arrivals):
        hands.time = max(hands.time + schedule.wait_seconds, start + arrival)
        ahead = sum(one <= hands.time - start for one in arrivals[place + 1 :])
        schedule.step(ahead, hands.time - start >= whole_at)
        shown.append(hands.time - start)
    hands.time = max(hands.time + schedule.wait_seconds, start + whole_at)
    schedule.end()
    return [*shown, hands.time - start]


@pytest.mark.parametrize("steps", [1, 2, 5, 12, 20, 48, 300])
@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
def test_a_fast_block_takes_its_time_however_many_steps_it_has(steps: int, speed: float) -> None:
    hands = Hands()
    schedule = Schedule(SpeedClock(hands, speed))
    shown = play(schedule, hands, [0.001 * step / speed for step in range(steps)], whole_at=0.4 / speed)
    assert shown[1] == pytest.approx(NOISE_SECONDS / speed)
    assert SHORTEST_SECONDS / speed <= shown[-1] <= LONGEST_SECONDS / speed + 1e-6
    assert shown[-1] == pytest.approx(block_seconds(steps) / speed)
    slots = [after - before for before, after in itertools.pairwise(shown[1:])]
    assert slots == pytest.approx([slots[0]] * steps)  # evenly


def test_a_slow_model_is_never_slowed() -> None:
    hands = Hands()
    arrivals = [0.7 * (step + 1) for step in range(10)]
    shown = play(Schedule(SpeedClock(hands)), hands, arrivals, whole_at=7.3)
    assert shown[1:] == pytest.approx([*arrivals, 7.3])


def test_full_speed_waits_for_nothing() -> None:
    hands = Hands()
    schedule = Schedule(SpeedClock(hands, FULL_SPEED))
    assert play(schedule, hands, [0.0, 0.0, 0.3], whole_at=0.3) == pytest.approx([0, 0, 0, 0.3, 0.3])
    assert (schedule.share, schedule.is_due) == (1.0, True)


def test_a_step_is_shown_by_and_by() -> None:
    hands = Hands()
    schedule = Schedule(SpeedClock(hands))
    schedule.begin()
    hands.time += NOISE_SECONDS
    schedule.step(1, True)
    shares = []
    for _ in range(3):
        shares.append(schedule.share)
        hands.time += 0.35
    assert shares == pytest.approx([0.0, 0.5, 1.0])


def test_the_frames_of_a_known_block_add_up_to_it() -> None:
    for steps in (1, 7, 48):
        frames = [frame_seconds(step, steps) for step in (NOISE, *range(steps + 1))]
        assert sum(frames) == pytest.approx(block_seconds(steps))
        assert (frames[0], frames[-1]) == (NOISE_SECONDS, 0.0)
