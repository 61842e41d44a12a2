"""A recorded run gone through: the same states as live, the arrays behind the figures, and the ends of rows."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from app.state.run.canvas import CanvasState
from app.state.run.lines import line_ends
from app.state.run.replay import NOISE, Frame, Replay
from engine import MINI, CanvasCommitted, CanvasStarted, Event, GenerationConfig, StepFinished, Trace
from tests.app.inspector.made_up import Recorded, committed, step_event

from .conftest import RUNS, picture


def shown_live(events: list[Event]) -> list[dict[str, object]]:
    """Returns the live view after each event that changed the canvas."""
    state, seen = CanvasState(), []
    for event in events:
        state.fold(event)
        if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted):
            seen.append(picture(copy.copy(state.current)))
    return seen


@pytest.mark.parametrize("name", RUNS)
def test_a_replay_shows_what_was_shown_live(runs, name):
    trace = runs[name]
    replay = Replay(trace)
    live = shown_live(trace.events)
    assert len(replay.frames) == len(live) > 1
    for place in (*range(len(live)), *reversed(range(len(live)))):
        assert picture(replay.snapshot(place)) == live[place], place


def test_frames_are_noise_steps_and_commit(runs):
    replay = Replay(runs["several blocks"])
    assert replay.blocks == 3
    for block in range(3):
        first = replay.first_of(block)
        steps = replay.record(block).steps
        wanted = [Frame(block, step) for step in range(NOISE, steps + 1)]
        assert replay.frames[first : first + steps + 2] == wanted
        assert [replay.place(frame) for frame in wanted] == list(range(first, first + steps + 2))
    with pytest.raises(IndexError, match="no block 3"):
        replay.record(3)
    with pytest.raises(KeyError):
        replay.place(Frame(3, 0))


def test_frames_are_only_added_while_a_run_goes_on(runs):
    whole = runs["several blocks"]
    growing = Trace(MINI, "", whole.config, 3)
    replay = Replay(growing)
    assert (replay.frames, replay.blocks) == ([], 0)
    live = shown_live(whole.events)
    before: list[Frame] = []
    for event in whole.events:
        growing.append(event)
        replay.refresh()
        assert replay.frames[: len(before)] == before
        before = list(replay.frames)
        if before:
            assert picture(replay.snapshot(len(before) - 1)) == live[len(before) - 1]
    assert before == Replay(whole).frames


def made_up(text_length: int | None = None, top: bool = False) -> list[Event]:
    """Three steps on four cells, written out by hand."""
    guesses = [[1, 2, 3, 4], [1, 9, 3, 4], [1, 9, 8, 5]]
    accepted = [[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]]
    entropies = [[0.0, 1.0, 2.0, 100.0], [0.0, 1.0, 1.0, 100.0], [0.0, 0.0, 1.0, 100.0]]
    events: list[Event] = [CanvasStarted(0, np.array([7, 7, 7, 7], np.int32), np.zeros(4, dtype=np.bool_))]
    for step, (guess, mask, entropy) in enumerate(zip(guesses, accepted, entropies, strict=True)):
        tops = ([[token, token + 20] for token in guess], [[0.7, 0.2]] * 4) if top else None
        events.append(step_event(step, guess, guess, mask, entropy=entropy, top=tops, noise=np.array(guess)))
    return events if text_length is None else [*events, committed((1, 9, 8, 5), text_length, 3)]


def recorded(events: list[Event]) -> Trace:
    trace = Trace()
    for event in events:
        trace.append(event)
    return trace


def test_figures_of_a_run_written_by_hand():
    record = Replay(recorded(made_up())).record(0)
    assert record.taken_back.astype(int).tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert record.changed.astype(int).tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]]
    assert record.settled_at.tolist() == [0, 1, 2, 2]
    assert record.accepted_counts.tolist() == [2, 2, 4]
    assert record.change_counts.tolist() == [0, 1, 2]
    assert record.taken_back_counts.tolist() == [0, 1, 0]
    assert record.mean_entropy.tolist() == pytest.approx([25.75, 25.5, 25.25])


def test_padding_enters_no_figure():
    record = Replay(recorded(made_up(text_length=3))).record(0)
    assert record.mean_entropy.tolist() == pytest.approx([1.0, 2 / 3, 1 / 3])
    assert record.accepted_counts.tolist() == [2, 2, 3]
    assert record.change_counts.tolist() == [0, 1, 1]
    empty = Replay(recorded(made_up(text_length=0, top=True))).record(0)
    assert empty.mean_entropy.tolist() == [0, 0, 0]


def test_next_change_of_a_cell():
    replay = Replay(recorded(made_up(text_length=4)))
    assert replay.next_change(0, 0, 1) == 1  # noise is replaced
    assert replay.next_change(1, 1, 1) == 2  # taken back
    assert replay.next_change(4, 3, -1) == 3
    assert replay.next_change(0, 0, -1) is None
    assert replay.next_change(4, 0, 1) is None


def test_noise_after_noise_is_no_change_of_the_calm_view():
    events = made_up()
    for place, event in enumerate(events[1:], 1):
        following = np.where(event.accepted_mask, event.argmax_canvas, 50 + event.step).astype(np.int32)
        events[place] = replace(event, next_canvas=following)
    replay = Replay(recorded(events))
    assert replay.next_change(1, 3, 1) == 2  # other noise
    assert replay.next_change(1, 3, 1, calm=True) == 3  # the guess changes at the third step only


@pytest.mark.parametrize(
    ("bound", "most", "steps"), [("BLOCK_STEPS", 2, 2), ("BLOCK_BYTES", 300, 2), ("BLOCK_BYTES", 1, 1)]
)
def test_a_block_too_long_to_be_held_shows_its_beginning(monkeypatch, bound, most, steps):
    monkeypatch.setattr(f"app.state.run.replay.{bound}", most)
    replay = Replay(recorded(made_up(text_length=4)))
    record = replay.record(0)
    assert (record.steps, record.final, replay.committed(0)) == (steps, None, True)
    assert replay.problem == f"Block 1 is too long to be shown whole; its first {steps} steps are."
    assert len(replay.frames) == 5
    assert replay.snapshot(4) is replay.snapshot(steps)


@pytest.mark.parametrize("good", [0, 1, 2])
def test_what_cannot_be_read_shows_the_last_that_can(good):
    replay = Replay(Recorded(made_up(text_length=4), damaged=range(good, 5)))
    assert len(replay.frames) == 5
    assert replay.problem == ""
    last = replay.snapshot(4)
    assert replay.problem == "a part of the file is damaged"
    assert last.steps == max(0, good - 1)
    assert last.length == (4 if good else 0)


WRITTEN = "ab\n\ncd\nxyz"


def tokens(text: str) -> np.ndarray:
    return np.array([WRITTEN.index(letter) for letter in text], dtype=np.int32)


def piece(token: int) -> str:
    return WRITTEN[token]


def step(number: int, text: str, accepted: str) -> StepFinished:
    """A step that samples ``text`` and accepts what is marked; the rest becomes the noise \"z\"."""
    mask = [mark == "x" for mark in accepted]
    return step_event(number, tokens(text), tokens(text), mask, noise=WRITTEN.index("z"))


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
