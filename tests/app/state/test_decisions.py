"""Questions while they are written, reads as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.state.decisions.drafts import KINDS, QuestionDraft, samples
from app.state.decisions.reading import DecisionReading
from engine import CanvasStarted, GenerationConfig, GenerationFinished, StepFinished
from engine.events import SlotsRead
from engine.service import DecisionRun
from engine.tasks.decisions.questions import Decision, OneOf, Option, YesNo

WHO = OneOf("Who?", (Option("Ann"), Option("Ben")))
EVEN = YesNo("Is it even?")


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_becomes_the_question_that_it_was_made_of(kind: str) -> None:
    draft = next(one for sample in samples() for one in sample.drafts if one.kind == kind)
    assert QuestionDraft.from_question(draft.question("q1")) == draft
    assert QuestionDraft.from_json(draft.to_json()) == draft


def test_what_is_missing_is_reported_at_its_field() -> None:
    draft = QuestionDraft("choice")
    assert draft.problem.place == -1
    draft = QuestionDraft("choice", "Who?", (Option("Ann"), Option(" ")))
    assert draft.problem.place == 1
    twice = replace(draft, options=(draft.options[0], Option("Ann ")))
    assert twice.problem is not None
    assert replace(draft, options=(draft.options[0], Option("Ben"))).problem is None


def test_options_stay_between_a_choice_and_a_score_and_are_bounded() -> None:
    draft = QuestionDraft("choice", "Who?", tuple(Option(str(n)) for n in range(26)))
    assert not draft.has_room  # 26 letters
    assert len(draft.as_kind("score").options) == 10
    sides = draft.as_kind("yes-no")
    assert [option.name for option in sides.options] == ["yes", "no"]
    assert not sides.has_room


def events_of(block: int, *logprobs: Sequence[float]) -> list[object]:
    canvas = np.arange(16, dtype=np.int32)
    mask = np.ones(16, dtype=np.bool_)
    rows = tuple(np.log(np.array(row, dtype=np.float32)) for row in logprobs)
    return [
        CanvasStarted(block, canvas, mask),
        StepFinished(block, 0, 1.0, canvas, canvas, np.zeros(16, dtype=np.float32), mask, canvas, 0.01),
        SlotsRead(block, rows, (True,) * len(rows)),
    ]


def test_replies_become_answers_canvas_by_canvas() -> None:
    decisions = Decision("x", (WHO, EVEN), is_joint=True), Decision("x", (WHO,))
    asked = [DecisionRun(GenerationConfig(), 0, decision) for decision in decisions]
    reading = DecisionReading.from_requests(asked)
    assert reading.answers == [None] * 3
    for block, shares in enumerate(((0.9, 0.1), (0.5, 0.5))):
        reading.runs[0].fold(events_of(block, shares, (0.2, 0.3)))
    who, _, last = reading.answers
    assert who.probabilities == pytest.approx((0.7, 0.3))
    assert (who.reads, [len(own) for own in reading.reads]) == (2, [2, 2, 0])
    assert last is None
    assert [reading.run_of(place) for place in (1, 2, 3)] == [*reading.runs, None]
    assert len(reading.runs[0].canvas.blocks) == 2
    end = GenerationFinished("eos", np.zeros(0, dtype=np.int32), 2, 2, 0.1)
    reading.runs[0].fold([end])
    reading.runs[0].end("")
    assert not reading.is_over
    reading.runs[1].end("it failed")
    assert reading.is_over
    assert reading.problem == "it failed"
    assert not reading.was_stopped
