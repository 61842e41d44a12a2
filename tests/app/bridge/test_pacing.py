"""When replies are delivered, by a clock that the test turns."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from PySide6.QtCore import QObject, Slot

from app.bridge.engine_thread import Pacing, RunHandle, RunView
from app.state.run.pace import FULL_SPEED, NOISE_SECONDS, block_seconds
from app.state.run.replay import Replay
from engine import CanvasCommitted, Event, Fork, GenerationConfig, PrefixPinned
from engine.service import (
    ChatRun,
    ForkRun,
    InfillRun,
    ModelUnloaded,
    RunAdvanced,
    RunEnded,
    RunReply,
    RunRequest,
    RunStarted,
    ServiceReply,
)
from engine.trace.header import Parent
from tests.app.inspector.made_up import STEPS, Recorded, run
from tests.app.state.test_pace import Hands
from tests.engine.task_runs import structured
from tests.written import written_run

pytestmark = pytest.mark.usefixtures("qapp")
REQUEST = ChatRun(GenerationConfig(), 0, ({"role": "user", "content": "hello"},))


class Paced(QObject):
    """A mailbox, a clock and what has been delivered."""

    def __init__(self, speed: float = 1.0, *, is_smooth: bool = True) -> None:
        super().__init__()
        self.hands = Hands()
        self.pacing = Pacing(1000, self, self.hands)
        self.run: RunHandle
        self.follow(is_paced=False)
        self.pacing.set_speed(speed, is_smooth=is_smooth)
        self.delivered: list[Any] = []
        self.times: list[float] = []  # of the frames among them, since the start
        self.start = self.hands.time

    @Slot(object)
    def _take(self, replies: list[ServiceReply]) -> None:
        for reply in replies:
            self.delivered.append(reply.event if isinstance(reply, RunAdvanced) else reply)
            self.times += [self.hands.time - self.start] * isinstance(reply, RunAdvanced)

    def follow(self, request: RunRequest = REQUEST, *, is_paced: bool = True) -> None:
        """The replies from now on are those of this request."""
        self.run = RunHandle(request, self.pacing.drain, is_paced=is_paced)
        self.run.replied.connect(self._take)
        self._outlet = self.pacing.outlet(self.run)

    def put(self, *replies: ServiceReply) -> None:
        for reply in replies:
            self._outlet.put(reply)
        self.pacing.drain()

    def turn(self, seconds: float) -> None:
        """Let time pass, as the timer would."""
        end = self.hands.time + seconds
        while self.hands.time < end:
            self.hands.time = min(end, self.hands.time + 0.01)
            self.pacing.drain()


def replies(events: list[Event], request: RunRequest = REQUEST, **trace: Any) -> list[RunReply]:
    advanced = [RunAdvanced(request.run_id, event) for event in events]
    return [RunStarted(request.run_id, Recorded(events, **trace)), *advanced, RunEnded(request.run_id)]


@pytest.fixture
def paced() -> Paced:
    made = Paced()
    made.follow()
    return made


def test_a_run_that_is_there_at_once_is_shown_in_its_time(paced: Paced) -> None:
    paced.put(*replies(run(2)), ModelUnloaded())
    view = paced.delivered[0].trace
    assert (len(paced.delivered), len(view.entries)) == (2, 1)  # the noise
    paced.turn(NOISE_SECONDS + 0.02)
    assert len(view.entries) == 2
    paced.turn(2 * block_seconds(STEPS))
    assert paced.times[0] == 0
    assert paced.times[1] == pytest.approx(NOISE_SECONDS, abs=0.02)
    assert paced.times[STEPS + 1] == pytest.approx(block_seconds(STEPS), abs=0.02)
    assert paced.times[-1] == pytest.approx(2 * block_seconds(STEPS), abs=0.1)
    assert isinstance(paced.delivered[-1], ModelUnloaded)  # all in order
    assert [one for one in paced.delivered if not isinstance(one, RunStarted | RunEnded | ModelUnloaded)] == list(
        view.events
    )
    assert not paced.pacing._held


def test_what_a_round_pins_comes_with_the_step_behind_it(paced: Paced) -> None:
    events = list(structured())
    paced.put(*replies(events))
    paced.turn(block_seconds(3) + 0.1)
    when = dict(zip(map(id, (one for one in paced.delivered if isinstance(one, Event))), paced.times, strict=True))
    for place, event in enumerate(events):
        if isinstance(event, PrefixPinned):
            assert when[id(event)] == when[id(events[place + 1])] > when[id(events[place - 1])]


def test_what_comes_late_is_delivered_when_it_comes(paced: Paced) -> None:
    arrivals = []
    for reply in replies(run(1)):
        paced.put(reply)
        if isinstance(reply, RunAdvanced):
            arrivals.append(paced.hands.time - paced.start)
            paced.turn(1.0)
    assert paced.times == arrivals


@pytest.mark.parametrize("decoder", ["autoregressive", "causal_parallel", "self_speculation"])
def test_text_from_left_to_right_is_shown_as_it_comes(decoder: str) -> None:
    paced, request = Paced(), dataclasses.replace(REQUEST, config=GenerationConfig(decoder=decoder))
    paced.follow(request)
    *most, end = replies(written_run([5, 6, 7, 8, 9, 10], 4), request)
    paced.put(*most)
    assert paced.delivered[1:] == [reply.event for reply in most[1:] if isinstance(reply, RunAdvanced)]
    assert (paced.run.share, paced.pacing.is_computed) == (1.0, False)
    paced.put(end)
    assert not paced.pacing._held


def test_of_a_mixed_run_only_the_blocks_of_noise_are_paced() -> None:
    config = GenerationConfig(token_thoughts=True)
    paced, request = Paced(), dataclasses.replace(REQUEST, config=config)
    paced.follow(request)
    noise = run(2)[: STEPS + 2]
    grown = written_run([5, 6, 7, 8], 4)[1:-1]
    paced.put(*replies([*grown, *noise, *grown], request))
    assert len(paced.times) == len(grown) + 1  # up to the noise
    paced.turn(block_seconds(STEPS) + 0.1)
    assert len(paced.times) == 2 * len(grown) + len(noise)
    assert paced.times[-len(grown)] == paced.times[-1] >= paced.times[0] + block_seconds(STEPS)


def test_a_share_of_a_step_is_shown_until_the_next(paced: Paced) -> None:
    shares: list[float] = []
    paced.run.revealed.connect(shares.append)
    paced.put(*replies(run(1)))
    paced.turn(NOISE_SECONDS + 0.3)
    assert 0 < paced.run.share < 1
    assert len(set(shares)) > 10
    paced.turn(10)
    assert paced.run.share == 1


def test_stop_delivers_what_was_computed(paced: Paced) -> None:
    *computed, end = replies(run(2))
    paced.put(*computed[:-2])
    paced.run.stop()
    assert len(paced.delivered) == len(computed) - 2
    assert paced.run.share == 1
    paced.put(*computed[-2:], end)  # and what comes after, at once
    assert paced.delivered[-1] == end
    assert paced.delivered[0].trace.result is None
    another = ChatRun(GenerationConfig(), 1, REQUEST.messages)
    paced.follow(another)
    paced.put(*replies(run(1), another))
    assert paced.pacing._held


def test_it_is_known_that_a_run_is_computed_and_only_shown() -> None:
    paced = Paced()
    states: list[bool] = []
    paced.pacing.delivered.connect(lambda: states.append(paced.pacing.is_computed))
    for ends in (lambda: paced.run.stop(), lambda: paced.turn(60.0)):
        paced.follow()
        *developing, end = replies(run(1))
        paced.put(*developing)
        assert not any(states)  # it may still be stopped
        paced.put(end)
        assert states[-1]
        ends()
        assert not states[-1]
        states.clear()


def test_full_speed_lets_go_of_what_is_held() -> None:
    paced = Paced(0.25)
    paced.follow()
    paced.put(*replies(run(1)))
    paced.pacing.set_speed(FULL_SPEED)
    assert paced.delivered[-1] == RunEnded(REQUEST.run_id)


def test_an_unwatched_run_and_an_infill_are_not_paced() -> None:
    for watched in (None, InfillRun.of(Recorded(run(1)), (), 0)):
        paced = Paced()
        if watched is not None:
            paced.follow(watched)
        paced.put(*replies(run(1), watched or REQUEST))
        assert isinstance(paced.delivered[-1], RunEnded)


def test_a_fork_shows_what_it_has_of_its_source_from_the_start() -> None:
    source = Recorded(run(2))
    request = ForkRun.of(source, (Fork(1, 0),))
    header = dataclasses.replace(source.header, parent=Parent(source.header.id, 1, 0), changes=request.changes)
    copied = STEPS + 2
    paced = Paced()
    paced.follow(request)
    started, *others = replies(list(source.events), request, header=header)
    paced.put(started, *others[copied:])
    view = paced.delivered[0].trace
    assert len(view.entries) == copied + 1  # and the noise of its own block
    paced.turn(10)
    assert list(view.events) == list(source.events)


# ---------------------------------------------------------------- a run as far as it has arrived


def test_a_view_shows_what_was_let_through_and_then_all() -> None:
    trace = Recorded(run(1))
    view = RunView(trace)
    assert (list(view.entries), list(view.events)) == ([], [])
    with pytest.raises(IndexError):
        view.event(0)
    view.advance()
    view.advance()
    assert list(view.events) == trace.events[:2]
    assert view.event(-1) is trace.events[1]
    with pytest.raises(IndexError):
        view.event(2)
    commit = trace.events[-1]
    assert isinstance(commit, CanvasCommitted)
    coming = view.coming(0)
    assert coming is not None
    assert coming.tolist() == commit.tokens[: commit.text_length].tolist()
    assert view.coming(1) is None
    view.show_all()
    assert list(view.events) == trace.events


def test_a_view_takes_positions_that_are_not_there_yet() -> None:
    trace = Recorded(run(1)[:2])
    view = RunView(trace)
    for _ in range(5):
        view.advance()
    assert view.event(-1) is trace.events[-1]
    replay = Replay(view)
    trace.grow(run(1)[2:])
    replay.refresh()
    assert len(replay.frames) == 5
    view.show_all()
    replay.refresh()
    assert len(replay.frames) == STEPS + 2
