"""A run as far as it has arrived."""

from __future__ import annotations

import pytest

from app.bridge.engine_thread import RunView
from app.state.run.replay import Replay
from engine import CanvasCommitted
from tests.app.inspector.made_up import STEPS, Recorded, run


def test_it_shows_what_was_let_through_and_then_all() -> None:
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


def test_it_takes_positions_that_are_not_there_yet() -> None:
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


def test_it_is_of_the_same_run() -> None:
    trace = Recorded(run(1))
    trace.fail("The disk was full.")
    view = RunView(trace)
    assert view.header is trace.header
    assert (view.piece(7), view.is_special(1)) == (trace.piece(7), True)
    assert (view.failure, view.notice) == (trace.failure, trace.notice)
    assert view.reply() == trace.reply()
    assert view.path is None
