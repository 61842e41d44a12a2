"""Files of questions: what they give is asked of a model."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from engine.tasks.decisions.question_file import read_question_file
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

QUESTIONS: dict[str, Any] = {
    "instructions": "Be strict.",
    "joint": True,
    "repeats": 2,
    "temperature": 1.5,
    "questions": {
        "urgent": {"type": "noul", "instructions": "Is it urgent?", "criteria": {"true": "it burns"}},
        "team": {"type": "choice", "instructions": "Which team?", "criteria": {"=billing": None, "support": "other"}},
        "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", {"label": "cross"}]},
    },
}


def _file(random: Random, folder: Path) -> Attempt:
    path = folder / "questions.json"
    path.write_bytes(mutate.dumped(random, mutate.tree(random, random.choice((QUESTIONS, QUESTIONS["questions"])))))

    def attempt() -> None:
        assert read_question_file(path).questions

    return attempt


KINDS = (Kind("question-files", _file),)
