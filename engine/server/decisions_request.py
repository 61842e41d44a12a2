"""The body of ``/v1/decisions``, and its conversion to questions about a state, as OpenAI has them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StrictBool, StrictStr, field_validator

from engine.errors import quoted
from engine.server.bodies import MAX_FIELD
from engine.server.errors import ApiError, refusing, unread
from engine.server.messages import SentImage, input_image
from engine.server.schemas import MAX_MESSAGES, ModelName
from engine.server.strict import Strict
from engine.tasks.decisions.questions import MAX_QUESTIONS, OneOf, Option, Question, Score, YesNo

ChoiceValue: TypeAlias = StrictStr | StrictBool
Content: TypeAlias = str | list[dict[str, Any]]
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}


class StateMessage(Strict):
    UNUSED = frozenset({"type", "phase"})
    role: Literal["user", "system", "developer", "assistant"]
    content: Content


class AskedPredicate(Strict):
    """A question of how likely a statement is."""

    type: Literal["predicate"]
    instructions: Content
    name: str | None = None


class AskedOption(Strict):
    """An option of a choice; the text "true" differs from the value true."""

    value: ChoiceValue
    description: str | None = None


class AskedChoice(Strict):
    """A question of which option applies."""

    type: Literal["choice"]
    instructions: Content
    choices: list[AskedOption]
    name: str | None = None


class AskedLevel(Strict):
    label: str
    description: str | None = None


class AskedScore(Strict):
    """A question of which level applies, the lowest first."""

    type: Literal["score"]
    instructions: Content
    levels: list[AskedLevel]
    name: str | None = None


AskedQuestion: TypeAlias = Annotated[AskedPredicate | AskedChoice | AskedScore, Field(discriminator="type")]


class DecisionsRequest(Strict):
    """Body of ``/v1/decisions``."""

    UNUSED = frozenset({"safety_identifier", "prompt_cache_key", "prompt_cache_options"})
    model: ModelName | None = None
    input: str | Annotated[list[StateMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    questions: Annotated[list[AskedQuestion], Field(min_length=1)]

    @field_validator("input", mode="before")
    @classmethod
    def _check_items(cls, raw: Any) -> Any:
        for place, item in enumerate(raw if isinstance(raw, list) else ()):
            if isinstance(item, dict) and item.get("type", "message") != "message":
                raise unread(
                    "Only messages are accepted; put calls and their results into the text.",
                    f"input.{place}.type",
                )
        return raw


@dataclass(frozen=True)
class AskedQuestions:
    """Questions about a state.

    Args:
        images: the questions are about these, too.
    """

    state: str
    questions: tuple[Question, ...]
    instructions: str = ""
    images: tuple[SentImage, ...] = ()


def read_decisions(body: DecisionsRequest) -> AskedQuestions:
    """Reads the body of ``/v1/decisions``.

    Raises:
        ApiError: there are more questions or options than can be read, or something is no text.
    """
    if len(body.questions) > MAX_QUESTIONS:
        said = f"There are {len(body.questions)} questions; at most {MAX_QUESTIONS} are answered in a request."
        raise ApiError(400, said, param="questions")
    images: list[SentImage] = []
    state, instructions = _state_of(body.input, images)
    if not state.strip() and not images:
        raise ApiError(400, "The input is empty; send what the questions are about.", param="input")
    questions = (_question(question, f"questions.{place}") for place, question in enumerate(body.questions))
    return AskedQuestions(state, tuple(questions), instructions, tuple(images))


def _question(asked: AskedQuestion, where: str) -> Question:
    text, name = _text_of(asked.instructions, f"{where}.instructions"), asked.name or ""
    match asked:
        case AskedPredicate():
            with _refusing(where):
                return YesNo(text, name=name)
        case AskedChoice(choices=choices):
            options = tuple(Option(_written(one.value), one.description or "") for one in choices)
            with _refusing(f"{where}.choices"):
                return OneOf(text, options, name)
        case AskedScore(levels=levels):
            options = tuple(Option(one.label, one.description or "") for one in levels)
            with _refusing(f"{where}.levels"):
                return Score(text, options, name)


def _written(value: object) -> str:
    """Writes a value as JSON, so that the text "true" and the value true are two options."""
    return json.dumps(value, ensure_ascii=False)


def _refusing(where: str) -> AbstractContextManager[None]:
    return refusing(where[:MAX_FIELD])


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
                f"A part of type {quoted(kind)} is not supported; send text, or an image in a user's message.",
                f"{where}.{place}",
            )
        texts.append(text)
    return "\n".join(texts)
