"""Rows of a canvas end at certain line breaks while it develops, and at the lines of its end in a replay."""

from __future__ import annotations

import numpy as np
import pytest

from app.state.run.canvas import CanvasState
from app.state.run.lines import line_ends
from app.state.run.replay import Replay
from engine import CanvasCommitted, CanvasStarted, Event, GenerationConfig, StepFinished, Trace

WRITTEN = "ab\n\ncd\nxyz"


def tokens(text: str) -> np.ndarray:
    return np.array([WRITTEN.index(letter) for letter in text], dtype=np.int32)


def piece(token: int) -> str:
    return WRITTEN[token]


def step(number: int, text: str, accepted: str) -> StepFinished:
    """A step that samples ``text`` and accepts what is marked; the rest becomes the noise \"z\"."""
    mask = np.array([mark == "x" for mark in accepted])
    drawn = tokens(text)
    following = np.where(mask, drawn, tokens("z" * len(text))).astype(np.int32)
    entropy = np.zeros(len(text), dtype=np.float32)
    return StepFinished(0, number, 0.8, drawn, drawn, entropy, mask, following, 0.1)


EVENTS: list[Event] = [
    CanvasStarted(0, tokens("\nzzzzz"), np.zeros(6, dtype=np.bool_)),
    step(0, "ab\nx\nz", "x...x."),
    step(1, "ab\nx\nz", "x.x..."),
    step(2, "ab\nc\nz", "xxxx.."),
    step(3, "ab\ncdz", "xxxxx."),
    CanvasCommitted(0, tokens("ab\ncd\n"), 5, 4, "converged"),
]


def test_rows_end_where_a_break_is_certain_and_stay_so_in_doubt() -> None:
    ends = [line_ends(CanvasState.from_events(EVENTS[: count + 1]).blocks[0], piece) for count in range(len(EVENTS))]
    assert ends == [(), (4,), (2, 4), (2, 4), (2,), (2,)]  # noise and padding end none


@pytest.mark.parametrize(("count", "ends"), [(6, (2,)), (3, (2, 4))], ids=["whole", "stopped"])
def test_a_replay_is_laid_on_the_lines_of_its_end_from_the_first_noise(count: int, ends: tuple[int, ...]) -> None:
    trace = Trace("m", "p", GenerationConfig(), 0, piece=piece, is_special=lambda _token: False)
    for event in EVENTS[:count]:
        trace.append(event)
    assert {line_ends(snapshot, piece) for snapshot in Replay(trace).record(0).snapshots} == {ends}
