"""Questions while they are written, reads as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.state.decisions.drafts import KINDS, QuestionDraft
from app.state.decisions.reading import CanvasPlace, DecisionReading
from app.state.decisions.samples import samples
from app.state.decisions.sheet import MOST_READS_AGAIN, QuestionSheet, file_of, sheet_of
from engine import CanvasStarted, GenerationConfig, GenerationFinished, StepFinished
from engine.events import SlotsRead
from engine.service import RunAdvanced, RunEnded, RunRequest
from engine.tasks.decisions.question_file import question_file_from_json
from engine.tasks.decisions.questions import MOST_QUESTIONS, Decision, OneOf, Option, YesNo

WHO = OneOf("Who?", (Option("Ann"), Option("Ben")), "who")
EVEN = YesNo("Is it even?", name="even")


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_becomes_the_question_that_it_was_made_of(kind: str) -> None:
    draft = next(one for sample in samples() for one in sample.drafts if one.kind == kind)
    assert QuestionDraft.from_question(draft.question()) == draft
    assert QuestionDraft.from_json(draft.to_json()) == draft


def test_what_is_missing_is_told_at_its_field() -> None:
    draft = QuestionDraft.blank("choice", "q1")
    assert draft.problem is not None
    assert draft.problem.field == "instructions"
    draft = QuestionDraft("choice", "q1", "Who?", (Option("Ann"), Option(" ")))
    assert draft.problem is not None
    assert (draft.problem.field, draft.problem.place) == ("options", 1)
    twice = replace(draft, options=(draft.options[0], Option("Ann ")))
    assert twice.problem is not None
    assert twice.problem.place == 1
    assert replace(draft, options=(draft.options[0], Option("Ben"))).problem is None


def test_options_stay_between_a_choice_and_a_score_and_are_bounded() -> None:
    draft = QuestionDraft("choice", "q", "Who?", tuple(Option(str(n)) for n in range(25)))
    draft = draft.plus_option()
    assert draft.plus_option() is draft  # 26 letters
    assert len(draft.as_kind("score").options) == 10
    sides = draft.as_kind("yes-no")
    assert [option.name for option in sides.options] == ["yes", "no"]
    assert sides.plus_option() is sides
    assert sides.minus_option(0) is sides


def test_questions_are_added_moved_doubled_and_removed() -> None:
    sheet = QuestionSheet().plus("yes-no").plus("choice").plus("score")
    assert [draft.name for draft in sheet.questions] == ["q1", "q2", "q3"]
    assert [draft.name for draft in sheet.moved(0, 2).questions] == ["q2", "q3", "q1"]
    assert sheet.moved(0, -1).questions == sheet.questions
    assert [draft.name for draft in sheet.doubled(0).questions] == ["q1", "q4", "q2", "q3"]
    assert [draft.name for draft in sheet.minus(1).plus("score").questions] == ["q1", "q3", "q2"]
    for _ in range(MOST_QUESTIONS):
        sheet = sheet.plus("score")
    assert len(sheet) == len(sheet.doubled(0)) == MOST_QUESTIONS


def test_two_questions_of_one_name_are_a_problem_of_the_second() -> None:
    sheet = QuestionSheet((QuestionDraft.from_question(WHO), QuestionDraft.from_question(EVEN)))
    assert sheet.problems == {}
    twice = sheet.changed(1, QuestionDraft.from_question(YesNo("Is it even?", name="who")))
    assert list(twice.problems) == [1]
    assert twice.problems[1].field == "name"


@pytest.mark.parametrize(
    "raw", [None, [], {}, {"questions": 3}, {"questions": [None, {"kind": "other"}, {"kind": []}]}]
)
def test_what_was_not_remembered_is_no_sheet(raw: object) -> None:
    found = QuestionSheet.from_json(raw)
    assert found is None or found.questions == ()


def test_a_sheet_is_remembered_with_what_is_in_bounds() -> None:
    sheet = QuestionSheet((QuestionDraft.blank("score", "q"),), "Be strict.", True, 5, 1.7)
    assert QuestionSheet.from_json(sheet.to_json()) == sheet
    odd = QuestionSheet.from_json(sheet.to_json() | {"repeats": 99, "temperature": "hot", "joint": 1})
    assert odd is not None
    assert (odd.repeats, odd.temperature, odd.is_joint) == (QuestionSheet().repeats, 1.0, False)


def test_a_sheet_goes_to_a_file_and_back() -> None:
    sheet = QuestionSheet(
        (QuestionDraft.from_question(WHO), QuestionDraft.from_question(EVEN)), "Be strict.", True, 2, 1.5
    )
    assert sheet_of(question_file_from_json(file_of(sheet).to_json())) == sheet
    many = question_file_from_json(file_of(sheet).to_json() | {"repeats": 60})
    assert sheet_of(many).repeats == MOST_READS_AGAIN


# ---------------------------------------------------------------- reads


def requests(*decisions: Decision) -> list[RunRequest]:
    return [RunRequest("decision", (), GenerationConfig(), 0, decision=decision) for decision in decisions]


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
    asked = requests(Decision("x", (WHO, EVEN), is_joint=True), Decision("x", (WHO,)))
    reading = DecisionReading.from_requests(asked)
    assert reading.count == 3
    assert reading.answers(1.0) == [None] * 3
    for block, shares in enumerate(((0.9, 0.1), (0.5, 0.5))):
        for event in events_of(block, shares, (0.2, 0.3)):
            assert reading.take(RunAdvanced(asked[0].run_id, event)) is reading.runs[0]  # type: ignore[arg-type]
    who = reading.answer(0, 1.0)
    assert who is not None
    assert who.probabilities == pytest.approx((0.7, 0.3))
    assert (who.reads, len(reading.reads_of(1))) == (2, 2)
    assert reading.answer(2, 1.0) is None
    assert reading.canvases == [CanvasPlace(0, 0), CanvasPlace(0, 1)]
    hot = reading.answer(0, 20.0)
    assert hot is not None
    assert hot.probabilities[0] < 0.6
    assert reading.take(RunEnded("another")) is None
    end = GenerationFinished("eos", np.zeros(0, dtype=np.int32), 2, 2, 0.1)
    reading.take(RunAdvanced(asked[0].run_id, end))
    reading.take(RunEnded(asked[0].run_id))
    assert not reading.is_over
    reading.take(RunEnded(asked[1].run_id, "it failed", "why"))
    assert reading.is_over
    assert reading.problem == ("it failed", "why")
    assert not reading.was_stopped
