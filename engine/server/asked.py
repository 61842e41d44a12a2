"""Converts the body of a decision request to questions about a state, for ``engine.tasks.decisions``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from engine.errors import quoted
from engine.server.bodies import MOST_FIELD
from engine.server.decisions_request import (
    AskedChoice,
    AskedPredicate,
    AskedQuestion,
    AskedScore,
    Content,
    DecisionsRequest,
    StateMessage,
    SystemoneRequest,
)
from engine.server.errors import ApiError, refusing, unread
from engine.server.images import SentImage, input_image
from engine.tasks.decisions.forms import question_from_json
from engine.tasks.decisions.questions import MOST_QUESTIONS, OneOf, Option, Question, Score, YesNo

_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class AskedQuestions:
    """Questions about a state.

    Args:
        images: the questions are about these, too.
        state_field, instructions_field: fields of the request that they were read from.
        id: the request's own name.
    """

    state: str
    questions: tuple[Question, ...]
    instructions: str = ""
    images: tuple[SentImage, ...] = ()
    state_field: str = "state"
    instructions_field: str = "instructions"
    id: str | None = None


def read_decisions(body: DecisionsRequest) -> AskedQuestions:
    """Reads the body of ``/v1/decisions``.

    Raises:
        ApiError: there are more questions or options than can be read, or something is no text.
    """
    _check_number(len(body.questions))
    images: list[SentImage] = []
    state, instructions = _state_of(body.input, images)
    _check_state(state, images, "input")
    questions = (_question(question, f"questions.{place}") for place, question in enumerate(body.questions))
    return AskedQuestions(state, tuple(questions), instructions, tuple(images), "input", "input")


def read_systemone(body: SystemoneRequest) -> AskedQuestions:
    """Reads the body of ``/v1/systemone``; raises as ``read_decisions``."""
    _check_number(len(body.questions))
    is_empty = body.state in (None, "", {}, [])
    state = body.state if isinstance(body.state, str) else "" if is_empty else _written(body.state)
    images = tuple(SentImage(url, f"images.{place}") for place, url in enumerate(body.images or ()))
    _check_state(state, images, "state")
    questions = []
    for name, question in body.questions.items():
        if not name:
            raise ApiError(400, "A question has no name; name it.", param="questions")
        questions.append(_made(f"questions.{name}", question_from_json, name, question))
    return AskedQuestions(state, tuple(questions), body.instructions or "", images, id=body.request_id)


def _question(asked: AskedQuestion, where: str) -> Question:
    text, name = _text_of(asked.instructions, f"{where}.instructions"), asked.name or ""
    match asked:
        case AskedPredicate():
            return _made(where, YesNo, text, name=name)
        case AskedChoice(choices=choices):
            options = tuple(Option(_written(one.value), one.description or "") for one in choices)
            return _made(f"{where}.choices", OneOf, text, options, name)
        case AskedScore(levels=levels):
            options = tuple(Option(one.label, one.description or "") for one in levels)
            return _made(f"{where}.levels", Score, text, options, name)


def _written(value: object) -> str:
    """Writes a value as JSON, so that the text "true" and the value true are two options."""
    return json.dumps(value, ensure_ascii=False)


def _made(where: str, make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    with refusing(where[:MOST_FIELD]):
        return make(*args, **kwargs)


def _check_number(count: int) -> None:
    if count > MOST_QUESTIONS:
        raise ApiError(
            400, f"There are {count} questions; at most {MOST_QUESTIONS} are answered a request.", param="questions"
        )


def _check_state(state: str, images: Sequence[SentImage], where: str) -> None:
    if not state.strip() and not images:
        raise ApiError(400, f"The {where} is empty; send what the questions are about.", param=where)


def _state_of(sent: str | list[StateMessage], images: list[SentImage]) -> tuple[str, str]:
    """Returns the subject of the questions, and the instructions before it. Turns are named if not all are a user's.

    A user's images are added to ``images``.
    """
    if isinstance(sent, str):
        return sent, ""
    turns: list[tuple[str, str]] = []
    instructions: list[str] = []
    for place, message in enumerate(sent):
        text = _text_of(message.content, f"input.{place}.content", images if message.role == "user" else None)
        if message.role in ("system", "developer"):
            instructions.append(text)
        else:
            turns.append((message.role, text))
    is_talk = any(role != "user" for role, _ in turns)
    state = "\n\n".join(f"{role}: {text}" if is_talk else text for role, text in turns)
    return state, "\n\n".join(instructions)


def _text_of(content: Content, where: str, images: list[SentImage] | None = None) -> str:
    """Returns the text of parts. Images among them are added to ``images``, or refused if there is no such list."""
    if isinstance(content, str):
        return content
    texts = []
    for place, part in enumerate(content):
        kind: Any = part.get("type")
        if kind == "input_image" and images is not None:
            images.append(input_image(part, f"{where}.{place}"))
            continue
        text = part.get(_TEXTS.get(kind, "") if isinstance(kind, str) else "")
        if kind == "input_json" and isinstance(part.get("data"), dict | list):
            text = _written(part["data"])
        if not isinstance(text, str):
            raise unread(
                f"A part of type {quoted(kind)} is not read here; send text, or an image in a user's message.",
                f"{where}.{place}",
            )
        texts.append(text)
    return "\n".join(texts)
