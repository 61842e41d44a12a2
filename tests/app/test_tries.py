"""A block that stalls and begins again, or is rescued, wherever its run is shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from app.chat.words import status_line
from app.cli.watch import status
from app.inspector.story_words import caption
from app.inspector.timeline.overview import figures_of
from app.inspector.words import facts, frame_words
from app.state.chat.conversation import Answer
from app.state.run.canvas import CanvasState
from app.state.run.replay import NOISE, Frame, Replay
from app.state.run.stats import RunFigures
from app.state.run.story import moment
from app.state.run.try_words import try_words
from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    Reply,
    StepFinished,
    Trace,
    TryEnded,
    generate,
    open_trace,
)
from engine.trace import Draft
from tests.engine.decoding.test_autoregressive import NARROW
from tests.engine.task_runs import tried
from tests.engine.tiny import network
from tests.engine.traces import header, letter, write

HEADER = header(16, 50)
HEADER = dataclasses.replace(HEADER, config=HEADER.config.replace(stall_steps=2, second_tries=1))


def trace_of(events: list[Event]) -> Trace:
    trace = Trace(header=HEADER, piece=letter)
    for event in events:
        trace.append(event)
    return trace


def test_a_replay_shows_tries_as_they_were_shown_live_both_ways(tmp_path: Path) -> None:
    events = list(tried())
    state, seen = CanvasState(), []
    for event in events[:-1]:
        state.fold(event)
        if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted):
            shown = state.blocks[0]
            seen.append((shown.tokens(calm=True).tolist(), shown.states(calm=True).tolist(), shown.try_number))
    assert [number for *_, number in seen] == [0, 0, 0, 0, 1, 1, 1]
    for trace in (trace_of(events), open_trace(write(tmp_path / "run.sltrace", events, HEADER))):
        replay = Replay(trace)
        assert replay.frames == [Frame(0, step) for step in range(NOISE, 6)]
        for place in (*range(7), *reversed(range(7)), 4, 0, 6):
            shown = replay.snapshot(place)
            found = (shown.tokens(calm=True).tolist(), shown.states(calm=True).tolist(), shown.try_number)
            assert found == seen[place], place


def test_another_try_takes_nothing_back_and_knows_nothing_of_the_one_before() -> None:
    events = list(tried())
    state, again = CanvasState.from_events(events[:6]), next(one for one in events if isinstance(one, TryEnded))
    (block,) = state.blocks
    assert (block.tokens(calm=True) == again.canvas).all()
    assert (block.argmax_canvas, block.entropy, block.accepted_count) == (None, None, 0)
    record = Replay(trace_of(events)).record(0)
    assert (record.begins, record.begin_before(2), record.begin_before(3)) == ((0, 3), 0, 3)
    assert not record.remelted.any()
    assert record.snapshots[-1].remelt_total == 0
    found, first = moment(record, 3), moment(record, 0)
    assert (found.fresh, found.again, found.otherwise) == (first.fresh, (), ())
    ended = [one for one in events if isinstance(one, TryEnded)]
    assert Draft.from_events(events[:-2]).tokens() == ended[-1].canvas.tolist()  # the try that counts


def test_tries_are_told_in_words() -> None:
    trace = trace_of(list(tried()))
    record = Replay(trace).record(0)
    said = [caption(record, Frame(0, step), trace).text for step in (3, 4, 5)]
    assert said[0].startswith("Step 4: it had become no surer, and begins again from other noise (try 2); 8 cells")
    assert "again" not in said[1]
    end = "stalled at step 5, try 1 is taken, as it was the surest"
    assert said[2] == f"Block 1: {end}."
    assert frame_words(Frame(0, 5), 5, record.snapshots[-1]) == f"Block 1, {end}"
    assert "step 4 of 5, try 2, temperature" in frame_words(Frame(0, 3), 5, record.snapshots[4])
    figures = figures_of(record)
    assert "Stalled at step 3, begun again as try 2" in facts(Frame(0, 3), 5, figures)
    assert "Stopped early: no surer for a while" in facts(Frame(0, 5), 5, figures)
    assert status(record.snapshots[-1], HEADER.config, 1).plain.endswith(end)
    assert status(record.snapshots[4], HEADER.config, 1).plain.startswith("try 2 · steps 4/48")
    alone = TryEnded(0, 8, 0, 0, True, "taken", np.zeros(1, np.int32))
    assert try_words(alone) == "stalled at step 9, taken as it is"
    late = dataclasses.replace(alone, number=1, has_stalled=False, then="rescued")
    assert try_words(late) == "out of steps at step 9, written on one token at a time"


def test_an_answer_says_that_it_stalled_and_keeps_that() -> None:
    answer = Answer("made up", 0, HEADER.config)
    for event in tried():
        answer.fold(event, lambda _tokens: Reply("text"))
        if isinstance(event, StepFinished) and event.step == 3:
            assert status_line(answer).startswith("Step 4, up to 48 · try 2 · ")
    again = Answer("made up", 0, HEADER.config, status="done", text="text")
    again.kept = RunFigures.from_json(answer.figures.to_json())
    for found in (answer, again):
        assert status_line(found).startswith("Ended after 5 steps · 1 second try · ")
        assert found.notices() == [
            "The model became no surer of this text, and was stopped. It may be wrong or unfinished."
        ]


@pytest.mark.parametrize("tries", [0, 1])
def test_a_rescue_after_a_stall_is_told_wherever_its_run_is_shown(tries: int) -> None:
    config = GenerationConfig(
        max_new_tokens=6, canvas_length=6, max_denoising_steps=20, eos_token_ids=(), confidence_threshold=0.0,
        stall_steps=2, stall_fall=0.9, rescue=True, rescue_probability=0.0, second_tries=tries,
    )  # fmt: skip
    trace, answer = Trace(header=dataclasses.replace(HEADER, config=config), piece=letter), Answer("made up", 0, config)
    for event in generate(network(1, **NARROW), [1, 2, 3], config):
        trace.append(event)
        answer.fold(event, lambda _tokens: Reply("text"))
    record = Replay(trace).record(0)
    after = 3 * (1 + tries)
    assert (record.snapshots[-1].rescue_after, record.reason, figures_of(record).is_rescued) == (after, "stalled", True)
    said = caption(record, Frame(0, record.steps), trace).text
    assert said.startswith(f"Block 1 stalled at step {after}: it was rescued, and written on with ")
    last = status(record.snapshots[-1], config, 1).plain
    assert last.endswith(f"stalled at step {after}, rescued")
    assert "1 block became no surer and was continued token by token." in answer.notices()
    assert [one.is_rescued for one in record.snapshots[:-1]] == [count > after for count in range(record.steps + 1)]
