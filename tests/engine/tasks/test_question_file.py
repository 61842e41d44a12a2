"""Questions as files: written and read again, the other forms, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine import SafelightError
from engine.tasks.decisions.question_file import (
    QuestionFile,
    question_file_from_json,
    read_question_file,
    write_question_file,
)
from engine.tasks.decisions.questions import OneOf, Option, Score, YesNo

URGENT = {"type": "noul", "instructions": "Is it urgent?"}
QUESTIONS = (
    YesNo("Ist es eilig? – ja", "it burns", "", "urgent"),
    OneOf("Which team?", (Option("billing", "money"), Option("support")), "team"),
    Score("How angry?", (Option("calm"), Option("cross", "raised voice")), "anger"),
)


@pytest.mark.parametrize(
    "questions",
    [
        QuestionFile(QUESTIONS),
        QuestionFile(QUESTIONS, "Be strict.", True, 0, 2.5),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, questions: QuestionFile) -> None:
    path = tmp_path / "questions.json"
    write_question_file(path, questions)
    assert read_question_file(path) == questions
    assert "–" in path.read_text(encoding="utf-8")


def test_other_forms() -> None:
    assert question_file_from_json({"urgent": URGENT}) == QuestionFile((YesNo("Is it urgent?", name="urgent"),))
    assert question_file_from_json({"questions": URGENT}).questions[0].name == "questions"
    body = {"model": "x", "state": {"a": "ü"}, "questions": {"urgent": URGENT}, "joint": True, "images": []}
    found = question_file_from_json(body)
    assert (found.state, found.is_joint, found.repeats) == ('{"a": "ü"}', True, 3)
    fitted = {"temperature": 1.5, "examples": 20, "accuracy": 0.75, "nll_before": 0.6}  # as earlier versions wrote it
    assert question_file_from_json({"questions": {"urgent": URGENT}, "temperature": fitted}).temperature == 1.5


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "does not hold a JSON object"),
        ({}, "at least one question"),
        ({"questions": {}}, "at least one question"),
        ({"questions": []}, "at least one question"),
        ({"urgent": {"type": "maybe"}}, "the question 'urgent' needs a text as instructions"),
        ({"urgent": URGENT | {"type": "maybe"}}, "the question 'urgent' has the type 'maybe'"),
        ({"questions": {"a": URGENT}, "tempo": 1}, "no field 'tempo'"),
        ({"questions": {"a": URGENT}, "temperature": 0}, "the temperature must be a number from 0.05 to 20, not 0"),
        ({"questions": {"a": URGENT}, "temperature": {}}, "the temperature must be a number from 0.05 to 20, not None"),
        ({"questions": {"a": URGENT}, "repeats": 1.5}, "repeats must be a whole number from 0 to 64, not 1.5"),
        ({"questions": {"a": URGENT}, "joint": 1}, "joint must be true or false"),
        ({"questions": {"a": URGENT}, "instructions": 1}, "the instructions must be a text"),
        ({"questions": {"a": URGENT}, "instructions": "x" * 10_001}, "have 10001 characters"),
        ({"questions": {"a": URGENT}, "images": ["data:"]}, "images in a file of questions are not read"),
        ({f"q{number}": URGENT for number in range(65)}, "there are 65 questions"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, raw: Any, message: str) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(SafelightError, match=message) as caught:
        read_question_file(path)
    assert str(path) in str(caught.value)
