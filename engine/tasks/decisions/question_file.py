"""Questions and their settings as a file, which the window and the command line export and import.

The file is ``{"instructions": "", "joint": false, "repeats": 3, "temperature": 1.0, "questions": {id: question}}``.
Its questions are in the form of ``engine.tasks.decisions.forms``. Also read are a temperature
that an earlier version fitted, an object; a bare ``{id: question}``; and a request to ``/v1/systemone``, including its
state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import files
from engine.declared import check_flag
from engine.errors import SafelightError, quoted
from engine.tasks.decisions.answers import COLDEST, HOTTEST
from engine.tasks.decisions.forms import question_to_json, questions_from_json
from engine.tasks.decisions.questions import MOST_REPEATS, MOST_TEXT, Question

REPEATS = 3  # repeats if a file names none
FILE_BYTES = 2**20
OWN = ("instructions", "joint", "repeats", "temperature", "questions")
OF_REQUESTS = ("model", "state", "images", "chat_template_kwargs", "request_id")  # further fields of ``/v1/systemone``


@dataclass(frozen=True)
class QuestionFile:
    """Questions with unique names, and the settings for asking them. ``state`` is that of a request, or empty."""

    questions: tuple[Question, ...]
    instructions: str = ""
    is_joint: bool = False
    repeats: int = REPEATS
    temperature: float = 1.0
    state: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the file as JSON, without the state."""
        return {
            "instructions": self.instructions,
            "joint": self.is_joint,
            "repeats": self.repeats,
            "temperature": self.temperature,
            "questions": {question.name: question_to_json(question) for question in self.questions},
        }


def question_file_from_json(raw: Any) -> QuestionFile:
    """Reads a question file from JSON.

    Raises:
        SafelightError: it has none of the three forms; the sentence names the question or the field.
    """
    if not isinstance(raw, Mapping):
        raise SafelightError("questions must be a JSON object")
    if not _is_wrapped(raw):
        return QuestionFile(questions_from_json(raw))
    unknown = [field for field in raw if field not in OWN + OF_REQUESTS]
    if unknown:
        raise SafelightError(f"there is no field {quoted(unknown[0])}; there are {', '.join(OWN)}")
    if raw.get("images"):
        raise SafelightError("images in a file of questions are not read; remove them, and give them separately")
    temperature, joint = raw.get("temperature", 1.0), raw.get("joint")
    if joint is not None:
        check_flag("joint", joint)
    if isinstance(temperature, Mapping):  # a fit, as earlier versions wrote it
        temperature = temperature.get("temperature")
    return QuestionFile(
        questions_from_json(raw["questions"]),
        _instructions(raw.get("instructions")),
        joint is True,
        _repeats(raw.get("repeats", REPEATS)),
        _temperature(temperature),
        _state(raw.get("state")),
    )


def read_question_file(path: Path) -> QuestionFile:
    """Reads a question file.

    Raises:
        SafelightError: it cannot be read, or has none of the three forms; the sentence names the file.
    """
    raw = files.read_json(path, most=FILE_BYTES)
    try:
        return question_file_from_json(raw)
    except SafelightError as error:
        raise SafelightError(f"{path}: {error}") from None


def write_question_file(path: Path, questions: QuestionFile) -> None:
    """Writes the file, completely or not at all.

    Raises:
        SafelightError: as in ``engine.files.replacing``.
    """
    files.write_text(path, json.dumps(questions.to_json(), indent=2, ensure_ascii=False) + "\n")


def _is_wrapped(raw: Mapping[str, Any]) -> bool:
    """True if the questions are in a field of that name; a question may have that name, too."""
    inner = raw.get("questions")
    return "questions" in raw and not (isinstance(inner, Mapping) and isinstance(inner.get("type"), str))


def _instructions(raw: Any) -> str:
    if raw is not None and not isinstance(raw, str):
        raise SafelightError(f"the instructions must be a text, not {quoted(raw)}")
    if len(raw or "") > MOST_TEXT:
        raise SafelightError(f"the instructions have {len(raw or '')} characters; at most {MOST_TEXT} are taken")
    return raw or ""


def _temperature(raw: Any) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not COLDEST <= raw <= HOTTEST:
        raise SafelightError(f"the temperature must be a number from {COLDEST} to {HOTTEST:g}, not {quoted(raw)}")
    return float(raw)


def _repeats(raw: Any) -> int:
    if type(raw) is not int or not 0 <= raw <= MOST_REPEATS:
        raise SafelightError(f"repeats must be a whole number from 0 to {MOST_REPEATS}, not {quoted(raw)}")
    return raw


def _state(raw: Any) -> str:
    """Returns a state as text, or as JSON if it is no text."""
    if raw is None or isinstance(raw, str):
        return raw or ""
    return json.dumps(raw, ensure_ascii=False)
