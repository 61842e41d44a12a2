"""Questions and their settings as a file, which ``safelight decide --questions`` reads.

The file is ``{"instructions": "", "joint": false, "repeats": 3, "temperature": 1.0, "questions": {id: question}}``, or
a bare ``{id: question}``. Its questions are in the form of ``engine.tasks.decisions.forms``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from engine import files
from engine.declared import Form, read, real, whole
from engine.errors import SafelightError
from engine.tasks.decisions.answers import COLDEST, HOTTEST
from engine.tasks.decisions.forms import questions_from_json
from engine.tasks.decisions.questions import MOST_REPEATS, Question

REPEATS = 3  # repeats if a file names none
FILE_BYTES = 2**20


@dataclass(frozen=True)
class QuestionFile:
    """Questions with unique names, and the settings for asking them.

    Args:
        instructions: a text that the model reads first.
        temperature: of the probabilities; 1 leaves the model's.
    """

    questions: Annotated[tuple[Question, ...], Form(questions_from_json, list)]
    instructions: str = ""
    joint: bool = False
    repeats: Annotated[int, whole(0, MOST_REPEATS)] = REPEATS
    temperature: Annotated[float, real(COLDEST, HOTTEST)] = 1.0


def question_file_from_json(raw: Mapping[str, Any]) -> QuestionFile:
    """Reads a question file from JSON.

    Raises:
        SafelightError: it has neither form; the sentence names the question or the field.
    """
    inner = raw.get("questions")
    if not isinstance(inner, Mapping) or isinstance(inner.get("type"), str):  # a question may have that name, too
        return QuestionFile(questions_from_json(raw))
    raw = dict(raw)
    if isinstance(temperature := raw.get("temperature"), Mapping):  # a fit, as earlier versions wrote it
        raw["temperature"] = temperature.get("temperature")
    return read(QuestionFile, raw, "the file", is_strict=True)


def read_question_file(path: Path) -> QuestionFile:
    """Reads a question file.

    Raises:
        SafelightError: it cannot be read, or has neither form; the sentence names the file.
    """
    raw = files.read_json(path, most=FILE_BYTES)
    try:
        return question_file_from_json(raw)
    except SafelightError as error:
        raise SafelightError(f"{path}: {error}") from None
