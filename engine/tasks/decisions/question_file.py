"""Questions and their settings as a file, which ``safelight decide --questions`` reads.

The file is ``{"instructions": "", "joint": false, "repeats": 3, "temperature": 1.0, "questions": {id: question}}``, or
a bare ``{id: question}``. Its questions are in the form of ``engine.tasks.decisions.forms``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import files
from engine.declared import check_flag
from engine.errors import SafelightError, quoted
from engine.tasks.decisions.answers import COLDEST, HOTTEST
from engine.tasks.decisions.forms import questions_from_json
from engine.tasks.decisions.questions import MOST_REPEATS, Question

REPEATS = 3  # repeats if a file names none
FILE_BYTES = 2**20
FIELDS = ("instructions", "joint", "repeats", "temperature", "questions")


@dataclass(frozen=True)
class QuestionFile:
    """Questions with unique names, and the settings for asking them.

    Args:
        instructions: a text that the model reads first.
        temperature: of the probabilities; 1 leaves the model's.
    """

    questions: tuple[Question, ...]
    instructions: str = ""
    is_joint: bool = False
    repeats: int = REPEATS
    temperature: float = 1.0


def question_file_from_json(raw: Mapping[str, Any]) -> QuestionFile:
    """Reads a question file from JSON.

    Raises:
        SafelightError: it has neither form; the sentence names the question or the field.
    """
    inner = raw.get("questions")
    if not isinstance(inner, Mapping) or isinstance(inner.get("type"), str):  # a question may have that name, too
        return QuestionFile(questions_from_json(raw))
    unknown = [field for field in raw if field not in FIELDS]
    if unknown:
        raise SafelightError(f"there is no field {quoted(unknown[0])}; there are {', '.join(FIELDS)}")
    instructions, joint = raw.get("instructions", ""), raw.get("joint", False)
    repeats, temperature = raw.get("repeats", REPEATS), raw.get("temperature", 1.0)
    if not isinstance(instructions, str):
        raise SafelightError(f"the instructions must be a text, not {quoted(instructions)}")
    check_flag("joint", joint)
    if type(repeats) is not int or not 0 <= repeats <= MOST_REPEATS:
        raise SafelightError(f"repeats must be a whole number from 0 to {MOST_REPEATS}, not {quoted(repeats)}")
    if isinstance(temperature, Mapping):  # a fit, as earlier versions wrote it
        temperature = temperature.get("temperature")
    if type(temperature) not in (int, float) or not COLDEST <= temperature <= HOTTEST:
        raise SafelightError(
            f"the temperature must be a number from {COLDEST} to {HOTTEST:g}, not {quoted(temperature)}"
        )
    return QuestionFile(questions_from_json(inner), instructions, joint, repeats, float(temperature))


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
