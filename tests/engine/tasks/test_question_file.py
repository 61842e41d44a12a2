"""Questions as files: the two forms, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine import SafelightError
from engine.tasks.decisions.forms import QuestionFile, question_file_from_json, read_question_file
from engine.tasks.decisions.questions import OneOf, Option, Score, YesNo

URGENT = {"type": "noul", "instructions": "Is it urgent?"}


def test_what_is_read() -> None:
    asked = {
        "urgent": URGENT | {"criteria": {"true": "it burns"}},
        "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "support": None}},
        "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", {"label": "cross"}]},
    }
    questions = (
        YesNo("Is it urgent?", "it burns", "", "urgent"),
        OneOf("Which team?", (Option("billing", "money"), Option("support")), "team"),
        Score("How angry?", (Option("calm"), Option("cross")), "anger"),
    )
    fitted = {"temperature": 1.5, "examples": 20}  # as earlier versions wrote it
    raw = {"instructions": "Be strict.", "joint": True, "repeats": 0, "temperature": fitted, "questions": asked}
    assert question_file_from_json(raw) == QuestionFile(questions, "Be strict.", True, 0, 1.5)
    assert question_file_from_json(asked) == QuestionFile(questions)
    assert question_file_from_json({"questions": URGENT}).questions[0].name == "questions"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "does not hold a JSON object"),
        ({"questions": {}}, "at least one question"),
        ({"urgent": {"type": "maybe"}}, "the question 'urgent' needs a text as instructions"),
        ({"urgent": URGENT | {"type": "maybe"}}, "the question 'urgent' has the type 'maybe'"),
        ({"questions": {"a": URGENT}, "tempo": 1}, "field 'tempo' that is not known"),
        ({"questions": {"a": URGENT}, "temperature": 0}, "temperature must be at least 0.05, not 0"),
        ({"questions": {"a": URGENT}, "repeats": 1.5}, "repeats must be a whole number, not 1.5"),
        ({"questions": {"a": URGENT}, "joint": 1}, "joint must be true or false"),
        ({"questions": {"a": URGENT}, "instructions": 1}, "instructions must be a text"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, raw: Any, message: str) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(SafelightError, match=message) as caught:
        read_question_file(path)
    assert str(path) in str(caught.value)
