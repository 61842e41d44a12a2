"""The player: frames, playing, selection, and a run that grows."""

from __future__ import annotations

import numpy as np
import pytest

from app.design import motion
from app.player.player import SPEEDS, Player
from app.state.run.pace import FULL_SPEED, block_seconds
from app.state.run.replay import Frame
from engine import CanvasCommitted, CanvasStarted, Event, StepFinished
from tests.app.inspector.made_up import Recorded
from tests.app.state.test_pace import Hands

pytestmark = pytest.mark.usefixtures("qapp")

LENGTH = 6


def run(blocks: int = 2, steps: int = 3) -> list[Event]:
    rng = np.random.default_rng(1)
    events: list[Event] = []
    for block in range(blocks):
        noise = rng.integers(2, 26, LENGTH).astype(np.int32)
        final = rng.integers(2, 26, LENGTH).astype(np.int32)
        events.append(CanvasStarted(block, noise, np.zeros(LENGTH, dtype=np.bool_)))
        for step in range(steps):
            accepted = np.arange(LENGTH) <= step
            canvas = np.where(accepted, final, rng.integers(2, 26, LENGTH)).astype(np.int32)
            entropy = np.full(LENGTH, 1.0, np.float32)
            events.append(StepFinished(block, step, 0.5, final, final, entropy, accepted, canvas, 0.1))
        events.append(CanvasCommitted(block, final, LENGTH, steps, "converged"))
    return events


@pytest.fixture
def hands() -> Hands:
    return Hands()


def turn(player: Player, hands: Hands, seconds: float) -> None:
    """Let time pass, as the timer would."""
    for _ in range(round(seconds / 0.01)):
        hands.time += 0.01
        if player.is_playing:
            player._tick()


@pytest.fixture
def player(hands: Hands) -> Player:
    made = Player(now=hands)
    made.open(Recorded(run()))
    return made


def test_without_a_run_nothing_moves():
    player = Player()
    player.go(3)
    player.step(1)
    player.toggle()
    player.play()
    player.go_to_block(0)
    player.refresh()
    assert (player.frame, player.block, player.snapshot, player.is_playing) == (None, None, None, False)
    assert player.next_change(1) is False
    assert player.piece(3) == ""


def test_opens_at_the_end_or_at_a_given_place(player):
    assert player.frame == Frame(1, 3)
    places: list[int] = []
    player.placed.connect(places.append)
    player.open(Recorded(run()), 2)
    assert (player.frame, places) == (Frame(0, 1), [2])
    player.open(Recorded(run()), 99)
    assert player.place == 9
    player.open(None)
    assert (player.replay, player.place) == (None, 0)


def test_going_stops_at_the_ends(player):
    for go, frame in (
        (lambda: player.go(-5), Frame(0, -1)),
        (lambda: player.step(-1), Frame(0, -1)),
        (lambda: player.step(4), Frame(0, 3)),
        (lambda: player.go_to_block(1), Frame(1, 3)),
        (lambda: player.go_to_block(0), Frame(0, 3)),
        (lambda: player.go_to_block(7), Frame(0, 3)),
    ):
        go()
        assert player.frame == frame


@pytest.mark.parametrize(("speed", "seconds"), [(1.0, 4), (FULL_SPEED, 0.04)])  # or a frame each tick
def test_plays_to_the_end_and_stops(player, hands, speed, seconds):
    player.go(6)
    seen: list[int] = []
    player.placed.connect(seen.append)
    player.set_speed(speed)
    player.toggle()
    assert player.is_playing
    turn(player, hands, seconds)
    assert not player.is_playing
    assert seen == [7, 8, 9]


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_a_block_is_played_as_long_as_it_is_shown_live(player, hands, speed):
    player.set_speed(speed)
    player.toggle()
    start = hands.time
    while player.frame.block == 0 and player.frame.step < 3:
        turn(player, hands, 0.01)
    assert hands.time - start == pytest.approx(block_seconds(3) / speed, abs=0.05)


def test_a_step_that_is_played_is_shown_by_and_by(player, hands):
    shares: list[float] = []
    player.revealed.connect(lambda: shares.append(player.share))
    player.toggle()
    turn(player, hands, 0.7)
    assert player.frame == Frame(0, 0)
    assert shares == sorted(shares)
    assert 0 < shares[-1] < 1
    assert (player.shown.accepted_count, player.snapshot.accepted_count) == (0, 1)
    player.pause()
    assert player.shown is player.snapshot
    motion.set_reduced(True)
    player.go(0)
    player.toggle()
    shares.clear()
    turn(player, hands, 1)
    assert shares == []
    player.pause()


def test_speed_has_bounds_and_holds_while_playing(player):
    player.go(0)
    player.toggle()
    player.set_speed(100)
    assert player.speed == SPEEDS[-1] == 4
    player.set_speed(0)
    assert player.speed == SPEEDS[0] == 0.1
    player.pause()


def test_next_change_of_the_selected_cell(player):
    player.go(0)
    assert player.next_change(1) is False
    player.select(2)
    player.calm = False
    assert player.next_change(1)
    assert player.place == 1  # other noise
    player.calm = True
    player.go(1)
    assert player.next_change(1)
    assert player.place == 3  # accepted
    assert player.next_change(-1)
    assert player.place == 2


def test_follows_a_run_that_grows_from_nothing():
    trace, player = Recorded([]), Player()
    player.open(trace)
    placed: list[int] = []
    player.placed.connect(placed.append)
    for event in run():
        trace.append(event)
        player.refresh()
    assert placed == list(range(10))
    assert player.frame == Frame(1, 3)


def test_who_looks_back_stays_there_while_the_run_grows():
    trace, player = Recorded(run()[:4]), Player()
    player.open(trace)
    player.go(1)
    trace.grow(run()[4:])
    grown: list[bool] = []
    player.grown.connect(lambda: grown.append(True))
    player.refresh()
    assert (player.place, grown) == (1, [True])
    assert len(player.replay.frames) == 10
