"""Two runs compared, on real runs of the embedded model."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from app.state.run.comparison import counterpart, differing, first_divergence
from app.state.run.replay import NOISE, Frame, Replay
from engine import StepFinished
from engine.models.model import Model
from tests.app.inspector import made_up
from tests.app.inspector.made_up import real_run

PROMPT = "Count from 4 to 43."


def replay(model: Model, **changes: int) -> Replay:
    return Replay(real_run(model, PROMPT, **{"max_new_tokens": 256} | changes))


def parting(one: Replay, other: Replay, start: int = 0) -> Frame | None:
    """Returns what the search finds, which rests after each frame."""
    search = first_divergence(one, other, start)
    for same in itertools.count(start + 1):
        try:
            assert next(search) == same
        except StopIteration as end:
            found: Frame | None = end.value
            return found
    raise AssertionError


def test_a_run_does_not_differ_from_itself(model: Model) -> None:
    one, other = replay(model), replay(model)
    assert one.blocks == 3
    assert parting(one, other) is None
    for place, frame in enumerate(one.frames):
        assert counterpart(frame, other) == place
        assert not differing(one.snapshot(place), other.snapshot(place), calm=False).any()


def test_the_first_step_that_differs_is_found(model: Model) -> None:
    trace, changed = (real_run(model, PROMPT, max_new_tokens=256) for _ in range(2))
    place = next(i for i, e in enumerate(changed.events) if isinstance(e, StepFinished) and e.block_index == 1)
    step = changed.events[place]
    assert isinstance(step, StepFinished)
    canvas = step.next_canvas.copy()
    canvas[5] += 1
    changed.events[place] = replace(step, next_canvas=canvas)
    one, other = Replay(trace), Replay(changed)
    found = parting(one, other)
    assert found == Frame(1, step.step)
    mask = differing(one.snapshot(one.place(found)), other.snapshot(other.place(found)), calm=False)
    assert np.flatnonzero(mask).tolist() == [5]


def test_a_shorter_run_is_met_at_its_end(model: Model) -> None:
    long, short = replay(model), replay(model, max_new_tokens=64)
    assert short.blocks == 1
    assert parting(long, short) == Frame(1, NOISE)
    assert counterpart(Frame(2, 0), short) is None
    assert parting(long, short, len(short.frames)) == Frame(1, NOISE)
    capped = replay(model, max_denoising_steps=1)
    last = Frame(0, long.record(0).steps)
    assert counterpart(last, capped) == len(capped.record(0).snapshots) - 1
    assert differing(long.snapshot(0), None, calm=True).all()
    assert not len(differing(None, long.snapshot(0), calm=True))


def test_the_divergence_is_found_behind_what_is_shown_of_a_long_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.state.run.replay.BLOCK_STEPS", 2)
    events = made_up.run(blocks=1)
    changed = [replace(e, next_canvas=e.next_canvas ^ 1) if getattr(e, "step", 0) == 3 else e for e in events]
    assert parting(Replay(made_up.Recorded(events)), Replay(made_up.Recorded(changed))) == Frame(0, 3)
