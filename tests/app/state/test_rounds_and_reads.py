"""Rounds of a run that fits a format, and reads of a decision: folded, gone through in both directions, damaged."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.state.run.canvas import BlockState, CanvasState, CellState, PinnedRound
from app.state.run.cell_history import history_of
from app.state.run.replay import NOISE, Frame, Replay
from app.state.run.stats import RunStats
from app.state.run.story import moment
from engine import Event, PrefixPinned, SlotsRead, StepFinished, Trace, open_trace
from tests.app.inspector.made_up import Recorded
from tests.engine.task_runs import FORMAT, decided, decision_header, structured
from tests.engine.traces import header, write

STRUCTURED = header(16, 50, output_format=FORMAT)
DECIDED = decision_header()
FIT, GIVEN, PADDING = CellState.FITTING, CellState.GIVEN, CellState.PADDING


def trace_of(events: list[Event], head=STRUCTURED) -> Trace:
    trace = Trace(header=head)
    for event in events:
        trace.append(event)
    return trace


def states(block: BlockState) -> list[int]:
    return block.states(calm=True).tolist()


def live(events: list[Event]) -> list[tuple[list[int], list[int]]]:
    """Tokens and states of each frame as the live view shows them."""
    state, seen = CanvasState(), []
    for event in events:
        state.fold(event)
        if isinstance(event, PrefixPinned | SlotsRead) or state.current is None:
            continue
        seen.append((state.current.tokens(calm=True).tolist(), states(state.current)))
    return seen[:-1]  # the end of the run shows nothing new


def test_a_replay_shows_rounds_as_they_were_shown_live_in_both_directions(tmp_path: Path) -> None:
    events = list(structured())
    seen = live(events)
    for trace in (trace_of(events), open_trace(write(tmp_path / "run.sltrace", events, STRUCTURED))):
        replay = Replay(trace)
        assert replay.frames == [Frame(0, step) for step in (NOISE, 0, 1, 2, 3)]
        for place in (*range(5), *reversed(range(5)), 3, 0, 4):
            shown = replay.snapshot(place)
            assert (shown.tokens(calm=True).tolist(), states(shown)) == seen[place], place


def test_what_the_format_gave_is_distinguished_from_what_the_model_wrote() -> None:
    record = Replay(trace_of(list(structured()))).record(0)
    assert record.rounds == (PinnedRound(0, 0, 2, 2, 0), PinnedRound(1, 1, 7, 5, 3), PinnedRound(2, 3, 16, 9, 8))
    assert record.round_at(1) is record.rounds[1]
    assert record.round_at(2) is None
    first, second, third, last = (states(one) for one in record.snapshots[1:])
    assert first[:2] == [GIVEN, GIVEN]
    assert FIT not in first
    assert second[:7] == third[:7] == [GIVEN, GIVEN, FIT, FIT, FIT, GIVEN, GIVEN]  # 5 and 6 were guessed otherwise
    assert last == [GIVEN, GIVEN, *[FIT] * 3, GIVEN, GIVEN, *[FIT] * 5, GIVEN, FIT, PADDING, PADDING]
    assert record.free.tolist() == [False, False, *[True] * 3, False, False, *[True] * 5, False, *[True] * 3]


def test_what_a_round_makes_noise_of_is_not_taken_back() -> None:
    events = list(structured())
    record = Replay(trace_of(events)).record(0)
    steps = [event for event in events if isinstance(event, StepFinished)]
    assert (steps[0].accepted_mask & ~steps[1].accepted_mask).sum() == 0
    harsh = replace(steps[1], accepted_mask=np.arange(16) < 7)  # nothing behind the pins is accepted any more
    gone = [harsh if event is steps[1] else event for event in events]
    replay = Replay(trace_of(gone))
    assert not record.taken_back.any()
    pinned = next(event for event in events if isinstance(event, PrefixPinned) and event.step == 1)
    renoised = np.flatnonzero(pinned.canvas != steps[0].next_canvas)
    assert not replay.record(0).taken_back[:, renoised].any()
    assert replay.snapshot(2).taken_back_total == replay.record(0).taken_back.sum() == 0
    assert moment(replay.record(0), 1).counted == 7  # of 14, those that no round had pinned
    assert moment(replay.record(0), 1).taken_back == ()


def test_a_decision_is_gone_through_read_by_read() -> None:
    events = list(decided(DECIDED))
    replay = Replay(trace_of(events, DECIDED))
    assert replay.frames == [Frame(read, step) for read in range(3) for step in (NOISE, 0)]
    assert [replay.steps_of(block) for block in range(3)] == [1, 1, 1]
    reads = [event for event in events if isinstance(event, SlotsRead)]
    assert [len(replay.reads(place)) for place in range(6)] == [0, 1, 1, 2, 2, 3]
    assert replay.reads() == replay.reads(5) == reads
    for place in (5, 4, 1, 3, 0):
        shown = replay.snapshot(place)
        assert shown.read is (reads[place // 2] if place % 2 else None)
    slots = [slot.position for slot in DECIDED.slots]
    before, after = (replay.snapshot(place).states(calm=True) for place in (0, 1))
    assert set(before[slots]) == {CellState.NOISE}
    assert set(after[slots]) == {CellState.ACCEPTED}
    assert set(np.delete(before, slots)) == set(np.delete(after, slots)) == {GIVEN}


def test_a_server_reports_a_decision_without_a_canvas() -> None:
    read = next(event for event in decided(DECIDED) if isinstance(event, SlotsRead))
    replay = Replay(trace_of([read], replace(DECIDED, slots=())))
    assert replay.frames == []
    assert replay.reads() == [read]
    assert CanvasState.from_events([read]).current is None


def test_an_unreadable_read_is_reported_and_the_others_stay() -> None:
    events = list(decided(DECIDED))
    replay = Replay(Recorded(events, header=DECIDED, damaged=[3]))
    assert len(replay.reads()) == 2
    assert replay.problem == "a part of the file is damaged"


@pytest.mark.parametrize("events", [list(structured()), list(decided(DECIDED))], ids=["rounds", "reads"])
def test_figures_count_what_was_run(events: list[Event]) -> None:
    stats = RunStats()
    for event in events:
        stats.fold(event)
    assert (stats.figures.steps, stats.figures.blocks) == (events[-1].steps, events[-1].blocks)
    snapshots = copy.copy(stats.canvases.blocks)
    assert [block.committed for block in snapshots] == [True] * len(snapshots)


@pytest.mark.parametrize(("name", "frames"), [("verified", 8), ("tried", 7), ("heads", 6)])
def test_runs_with_events_that_are_gone_are_shown_without_them(name: str, frames: int) -> None:
    replay = Replay(open_trace(Path(__file__).parents[2] / "fixtures" / "earlier_events" / f"{name}.sltrace"))
    for place in range(len(replay.frames)):
        assert replay.snapshot(place).length == 16
    assert (len(replay.frames), replay.problem) == (frames, "")


def test_a_second_opinion_is_that_of_the_finished_text() -> None:
    replay = Replay(open_trace(Path(__file__).parents[2] / "fixtures" / "earlier_events" / "tried.sltrace"))
    shares = np.linspace(0, 1, 16, dtype=np.float32)
    shares[15] = np.nan
    assert replay.record(0).causal is None
    replay.opine({0: shares})
    record, last = replay.record(0), replay.snapshot(len(replay.frames) - 1)
    assert record.causal is last.causal is shares
    assert [one.causal for one in record.snapshots[:-1]] == [None] * 6
    assert (last.cell(5, calm=True).causal, last.cell(15, calm=True).causal) == (pytest.approx(1 / 3), None)
    assert (history_of(record, 5).causal, history_of(record, 15).causal) == (pytest.approx(1 / 3), None)
