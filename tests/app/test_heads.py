"""A block of which only the beginning became text, wherever its run is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from app.cli.watch import status
from app.inspector.story_words import caption
from app.inspector.timeline.overview import figures_of
from app.inspector.words import facts, frame_words
from app.state.run.canvas import CanvasState, CellState
from app.state.run.replay import NOISE, Frame, Replay
from app.state.run.stats import RunStats
from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
    Trace,
    open_trace,
)
from engine.service.wire.source import source_from_json, source_to_json
from engine.trace import Draft
from tests.engine.traces import header, letter, write

END = 49
HEADER = header(8, 50)
HEADER = dataclasses.replace(HEADER, config=HEADER.config.replace(head_steps=1, eos_token_ids=(END,)))


def headed() -> Iterator[Event]:
    """A run that no model made: a canvas of 8, whose first 5 tokens become text, and a last one that ends in 4."""
    first, rest = np.arange(10, 18, dtype=np.int32), np.array([15, 16, 17, 20, END, 21, 22, 23], dtype=np.int32)
    none, every = np.zeros(8, dtype=np.bool_), np.ones(8, dtype=np.bool_)
    doubts = np.full(8, 0.5, dtype=np.float32)
    yield PrefillFinished(5, 0, 0.1)
    for block, (guess, length) in enumerate(((first, 5), (rest, 4))):
        noise = np.full(8, 30, dtype=np.int32)
        noise[:3] = first[5:] if block else 30
        yield CanvasStarted(block, noise, none)
        for step in range(2):
            yield StepFinished(block, step, 0.5, guess, guess, doubts, every, guess, 0.01)
        yield CanvasCommitted(block, np.where(np.arange(8) < length, guess, 0).astype(np.int32), length, 2, "head")
    yield GenerationFinished("eos", np.concatenate([first[:5], rest[:4]]), 2, 4, 1 / 3)


def recorded() -> Trace:
    trace = Trace(header=HEADER, piece=letter)
    for event in headed():
        trace.append(event)
    return trace


def test_the_draft_keeps_what_goes_on_in_the_next_block() -> None:
    events = list(headed())
    texts = [Draft.from_events(events[: count + 1], (END,)).tokens() for count in range(len(events))]
    whole = list(range(10, 18))
    assert texts[2:6] == [whole] * 4  # steps, the commit, the next block's beginning
    assert texts[6:] == [[*whole, 20]] * (len(events) - 6)


def test_a_block_says_that_its_beginning_became_text(tmp_path: Path) -> None:
    for trace in (recorded(), open_trace(write(tmp_path / "run.sltrace", headed(), HEADER))):
        replay = Replay(trace)
        record, later = replay.record(0), replay.record(1)
        states = record.snapshots[-1].states(calm=True).tolist()
        assert states == [CellState.SETTLED] * 5 + [CellState.PADDING] * 3
        end = "its first 5 tokens had settled and became text at step 2"
        assert caption(record, Frame(0, 2), trace).text == f"Block 1: {end}."
        assert frame_words(Frame(0, 2), 2, record.snapshots[-1]) == f"Block 1, {end}"
        assert "Stopped early: its beginning had settled" in facts(Frame(0, 2), 2, figures_of(record))
        assert status(record.snapshots[-1], HEADER.config, 1).plain.endswith(end)
        said = [caption(one, Frame(one.index, NOISE), trace).text for one in (record, later)]
        assert said == [
            "Block 1 begins: a random token in each of 8 cells.",
            "Block 2 begins with 3 cells of the block before it, and a random token in each of 5.",
        ]
        figures = RunStats.from_events(list(trace.events)).figures
        assert (figures.steps, figures.blocks, figures.capped_blocks) == (4, 2, 0)


def test_a_block_of_another_length_is_shown_as_it_is() -> None:
    state = CanvasState()
    for event in headed():
        state.fold(event)
    small = np.arange(3, dtype=np.int32)
    state.fold(CanvasStarted(2, small, np.zeros(3, dtype=np.bool_)))
    assert [block.length for block in state.blocks] == [8, 8, 3]


def test_another_machine_gets_heads_as_they_are() -> None:
    trace = recorded()
    again = source_from_json(source_to_json(trace))
    assert [(end.row.tolist(), end.reason) for end in again.committed] == [
        (end.row.tolist(), "head") for end in trace.committed
    ]
    assert [len(end.row) for end in again.committed] == [5, 4]
