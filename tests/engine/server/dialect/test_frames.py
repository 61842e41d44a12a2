"""Frames say of a canvas what the window's own reducer says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pytest

from app.state.run.canvas import BlockState, CanvasState, CellState
from engine import CanvasCommitted, CanvasStarted, Event, StepFinished
from engine.server.serving import CanvasFrames
from engine.service import LoadedModel
from engine.service.wire import model_from_json
from tests.engine.service.wire.test_wire import some_model
from tests.engine.task_runs import rewritten, structured
from tests.engine.traces import is_tenth, letter, letters, made_up


@pytest.fixture
def model() -> LoadedModel:
    plain = model_from_json(some_model(), "")
    return dataclasses.replace(plain, piece=letter, is_special=is_tenth, decode=letters)


@pytest.mark.parametrize(
    ("events", "count"),
    [
        (made_up(length=40, blocks=3, steps=6, vocabulary=4), 3 * 8),  # few tokens, so that guesses agree
        (structured(), 5),
        (rewritten(), 13),
    ],
    ids=["free", "in a format", "over masks"],
)
def test_each_frame_shows_what_the_window_shows(model: LoadedModel, events: Iterable[Event], count: int) -> None:
    state, frames = CanvasState(), CanvasFrames(model, 48)
    shown = 0
    for event in events:
        state.fold(event)
        frame = frames.fold(event)
        assert (frame is not None) == isinstance(event, CanvasStarted | StepFinished | CanvasCommitted)
        if frame is None:
            continue
        block = state.current
        assert block is not None
        shown += 1
        assert frame["ids"] == block.shown.tolist()
        assert frame["block"] == block.block_index + 1
        assert frame["step"] == block.steps
        assert frame["committed"] == block.committed
        assert frame["pinned"] == (0 if block.round is None else block.round.pinned)
        if not block.committed:
            assert frame["accepted"] == places(block.accepted_mask)
            assert frame["remelted"] == places(block.taken_back_mask)
            assert frame["settled"] == places(block.settled_mask)
        settled = unpinned(block, CellState.SETTLED)
        assert set(settled) <= set(frame["settled"]) | set(frame["remelted"])
    assert shown == count


def places(mask: Iterable[bool]) -> list[int]:
    return [place for place, value in enumerate(mask) if value]


def unpinned(block: BlockState, state: CellState) -> list[int]:
    return places(block.states(calm=True) == state)


def test_a_token_is_written_once_and_control_tokens_are_empty(model: LoadedModel) -> None:
    frames = CanvasFrames(model, 3)
    written: dict[int, str] = {}
    for event in made_up():
        frame = frames.fold(event)
        if frame is not None:
            assert not written.keys() & frame["pieces"].keys()
            written |= frame["pieces"]
            assert {*frame["ids"], *frame["draft"]} <= written.keys()
    assert all(piece == ("" if is_tenth(token) else letter(token)) for token, piece in written.items())


def test_the_text_ends_at_an_end_token(model: LoadedModel) -> None:
    frames = CanvasFrames(model, 3)
    first, *_ = (event for event in made_up(vocabulary=50) if isinstance(event, StepFinished))
    draft = np.array([5, 6, 7, 1, 8, 9], dtype=np.int32)  # 1 ends a text of this model
    frames.fold(CanvasStarted(0, draft, np.zeros(6, dtype=np.bool_)))
    frame = frames.fold(dataclasses.replace(first, argmax_canvas=draft))
    assert frame is not None
    assert frame["text"] == "[5][6][7]"
