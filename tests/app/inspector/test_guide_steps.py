"""The steps of the guided minute as data: when each is done, and that the recorded run has what they say."""

from __future__ import annotations

import dataclasses

import pytest

from app.inspector.guide.scene import CELL, COUNTED, DIGIT, RUN, STEPS, Course, GuideState
from app.state.run.replay import Replay
from engine import gallery, open_trace
from engine.tasks.sudoku import parse, solutions

BEGUN = GuideState(place=0, last=49, steps=48)
DONE = (
    {"place": 49},
    {"selection": CELL},
    {"is_taken_back": True},
    {"is_pinned": True},
    {"changed_steps": 11},
    {"is_exported": True},
)


@pytest.mark.parametrize("place", range(COUNTED))
def test_a_step_is_done_by_what_it_asks_for_and_by_nothing_else(place: int) -> None:
    course = Course()
    course.place = place
    assert not course.notice(BEGUN)
    for other in (*DONE[:place], *DONE[place + 1 :]):
        assert not course.step.is_done(dataclasses.replace(BEGUN, **other))
    assert course.notice(dataclasses.replace(BEGUN, **DONE[place]))
    assert course.place == place + 1


def test_the_course_ends_at_both_ends_and_counts_six() -> None:
    course = Course()
    assert course.title == "Guided minute · 1 of 6 · Start"
    assert not course.go(-1)
    course.place = COUNTED
    assert course.is_at_end
    assert course.title == "Guided minute"
    assert not course.go(1)


def test_figures_are_reported_only_of_a_changed_run() -> None:
    export = STEPS[COUNTED - 1]
    assert export.words(BEGUN) == "Export it as a film, a picture or a web page."
    changed = dataclasses.replace(BEGUN, changed_steps=11, changed_cells=1)
    assert export.words(changed).startswith("With the pin it took 11 steps, not 48, and 1 other digit came out")


def test_the_recorded_run_is_what_the_steps_say() -> None:
    trace = open_trace(next(one.path for one in gallery() if one.path.stem == RUN))
    record = Replay(trace).record(0)
    assert record.steps == 48
    assert record.taken_back_counts[-1] > 0
    assert record.entropy[-1, CELL] > 0.5
    assert [solved[CELL] for solved in solutions(parse(trace.prompt))] == [DIGIT]
    assert trace.piece(int(record.top_tokens[0, CELL, 0])) == DIGIT
