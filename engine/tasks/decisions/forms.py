"""Questions and typed answers as JSON, in the form of ``/v1/systemone``.

A question is ``{"type": …, "instructions": …, "criteria": …}``. ``criteria`` of a noul (yes or no) are
``{"true": …, "false": …}``, both optional. Those of a choice are its options with their descriptions,
``{name: description or null}``. Those of a score are its levels, each a name or ``{"label": …, "description": …}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from engine import files
from engine.declared import Form, many, read, real, whole
from engine.errors import SafelightError, quoted
from engine.files import storable
from engine.tasks.decisions.answers import COLDEST, HOTTEST, TypedAnswer
from engine.tasks.decisions.questions import (
    MAX_QUESTIONS,
    MAX_REPEATS,
    Decision,
    OneOf,
    Option,
    Question,
    Score,
    YesNo,
)

SIDES = ("true", "false")
FIELDS = ("type", "instructions", "criteria")


def question_to_json(question: Question) -> dict[str, Any]:
    """Returns a question as JSON, without its name."""
    criteria: Any
    match question:
        case YesNo():
            kind, described = "noul", (question.yes, question.no)
            criteria = {side: text for side, text in zip(SIDES, described, strict=True) if text}
        case OneOf():
            kind, criteria = "choice", {option.name: option.description or None for option in question.options}
        case Score():
            kind, criteria = "score", [_level_to_json(level) for level in question.levels]
    return {"type": kind, "instructions": question.instructions, "criteria": criteria}


def question_from_json(name: str, raw: Any) -> Question:
    """Reads a question by its name.

    Raises:
        SafelightError: it is not a question; the sentence names the question and the field.
    """
    if not isinstance(raw, dict):
        raise _bad(name, "must be an object with type, instructions and criteria")
    unknown = [field for field in raw if field not in FIELDS]
    if unknown:
        raise _bad(name, f"has the unknown field {quoted(unknown[0])}; there are {', '.join(FIELDS)}")
    instructions, criteria = _text(name, "instructions", raw.get("instructions")), raw.get("criteria")
    match raw.get("type"):
        case "noul":
            sides = {} if criteria is None else _described(name, criteria)
            if not sides.keys() <= set(SIDES):
                raise _bad(name, "may have the criteria true and false, no others")
            return YesNo(instructions, sides.get("true", ""), sides.get("false", ""), name)
        case "choice":
            options = tuple(Option(option, text) for option, text in _described(name, criteria).items())
            return OneOf(instructions, options, name)
        case "score":
            if not isinstance(criteria, list):
                raise _bad(name, "needs its levels as criteria, a list, the lowest first")
            return Score(instructions, tuple(_level_from_json(name, level) for level in criteria), name)
        case kind:
            raise _bad(name, f"has the type {quoted(kind)}; there are noul, choice and score")


def questions_from_json(raw: Any) -> tuple[Question, ...]:
    """Reads all questions of ``{name: question}``.

    Raises:
        SafelightError: one is not a question, as in ``question_from_json``; there are none or too many.
    """
    if not isinstance(raw, dict) or not raw:
        raise SafelightError("questions must be an object with at least one question by its name")
    if len(raw) > MAX_QUESTIONS:
        raise SafelightError(f"there are {len(raw)} questions; at most {MAX_QUESTIONS} are taken at once")
    return tuple(question_from_json(name, question) for name, question in raw.items())


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Returns a decision as JSON; its questions are a list, since two may have the same name."""
    return {
        "state": decision.state,
        "instructions": decision.instructions,
        "questions": [[question.name, question_to_json(question)] for question in decision.questions],
        "is_joint": decision.is_joint,
        "first": decision.first,
        "repeats": decision.repeats,
    }


@dataclass(frozen=True)
class _DecisionForm:
    state: str
    questions: Annotated[tuple[tuple[str, Any], ...], many(MAX_QUESTIONS, fewest=1)]
    instructions: str = ""
    is_joint: bool = False
    first: Annotated[int, whole(0, MAX_QUESTIONS)] = 1
    repeats: Annotated[int, whole(0, MAX_QUESTIONS)] = 0


def decision_from_json(raw: Any) -> Decision:
    """Reads a decision from JSON.

    Raises:
        SafelightError: it is not a decision.
    """
    form = read(_DecisionForm, raw, "a decision")
    questions = tuple(question_from_json(*pair) for pair in form.questions)
    return Decision(form.state, questions, form.instructions, form.is_joint, form.first, form.repeats)


def systemone_answer(answer: TypedAnswer) -> dict[str, Any]:
    """Returns an answer in the format of TypeSafe and vLLM, without its question's name."""
    question = answer.question
    names = [option.name for option in question.options]
    written: dict[str, Any]
    match question:
        case YesNo():
            written = {"type": "noul", "noul": answer.probabilities[0]}
        case OneOf():
            written = {"type": "choice", "choice": names[answer.best]}
        case Score():
            legend = {str(level): name for level, name in enumerate(names)}
            written = {"type": "score", "score": answer.score, "legend": legend}
            names = list(legend)
    probabilities = dict(zip(names, answer.probabilities, strict=True))
    return written | {"probabilities": probabilities, "confidence": answer.confidence}


def answer_to_json(answer: TypedAnswer) -> dict[str, Any]:
    """Returns ``systemone_answer`` with its diagnostics, and the agreement of its reads if there are several."""
    written = systemone_answer(answer) | {
        "label_mass": answer.label_mass,
        "argmax_is_label": answer.argmax_is_label,
        "reads": answer.reads,
    }
    if answer.reads > 1:
        spread = dict(zip(written["probabilities"], answer.spread, strict=True))  # the standard errors
        written |= {"spread": spread, "agreement": answer.agreement}
    return written


def _level_to_json(level: Option) -> Any:
    return {"label": level.name, "description": level.description} if level.description else level.name


def _level_from_json(name: str, raw: Any) -> Option:
    if isinstance(raw, dict) and raw.keys() <= {"label", "description"}:
        return Option(_text(name, "label", raw.get("label")), _text(name, "description", raw.get("description") or ""))
    return Option(_text(name, "level", raw))


def _described(name: str, raw: Any) -> Mapping[str, str]:
    """Returns names with their descriptions, empty if there is none."""
    if not isinstance(raw, dict):
        raise _bad(name, "needs its criteria as an object of names and descriptions")
    return {key: "" if text is None else _text(name, "criteria", text) for key, text in raw.items()}


def _text(name: str, field: str, raw: Any) -> str:
    if not isinstance(raw, str):
        raise _bad(name, f"needs a text as {field}, not {quoted(raw)}")
    return storable(raw)


def _bad(name: str, what: str) -> SafelightError:
    return SafelightError(f"the question {quoted(name)} {what}")


REPEATS = 3  # repeats if a file names none
FILE_BYTES = 2**20


@dataclass(frozen=True)
class QuestionFile:
    """Questions with unique names, and the settings for asking them, as ``safelight decide --questions`` reads them.

    The file is ``{"instructions": "", "joint": false, "repeats": 3, "temperature": 1.0, "questions": {id: question}}``,
    or a bare ``{id: question}``.

    Args:
        instructions: a text that the model reads first.
        temperature: of the probabilities; 1 leaves the model's.
    """

    questions: Annotated[tuple[Question, ...], Form(questions_from_json, list)]
    instructions: str = ""
    joint: bool = False
    repeats: Annotated[int, whole(0, MAX_REPEATS)] = REPEATS
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
