"""The bodies of ``/v1/decisions`` and ``/v1/systemone``: OpenAI's and TypeSafe's, with four fields of ours."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StrictBool, StrictStr, field_validator

from engine.server.errors import unread, unsupported
from engine.server.schemas import MOST_MESSAGES, ModelName, TemplateOptions
from engine.server.strict import Strict

MOST_REPEATS = 16
ChoiceValue: TypeAlias = StrictStr | StrictBool
Content: TypeAlias = str | list[dict[str, Any]]


class AskedRequest(Strict):
    """The fields that both have in common.

    Args:
        joint: the questions are read from the fewest canvases that hold them. vLLM's.
        repeats: further reads of a doubtful answer. Ours.
        temperature: the probabilities are made flatter by it, or steeper; 1 leaves them as they are. Ours.
        image_tokens: the most tokens that an image may take. Ours.
    """

    model: ModelName | None = None
    joint: bool | None = None
    repeats: Annotated[int, Field(ge=0, le=MOST_REPEATS)] | None = None
    temperature: Annotated[float, Field(ge=0.01, le=100)] | None = None
    image_tokens: int | None = None


class StateMessage(Strict):
    role: Literal["user", "system", "developer", "assistant"]
    content: Content
    type: Literal["message"] = "message"
    phase: str | None = None


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


class DecisionsRequest(AskedRequest):
    """Body of ``/v1/decisions``."""

    input: str | Annotated[list[StateMessage], Field(min_length=1, max_length=MOST_MESSAGES)]
    questions: Annotated[list[AskedQuestion], Field(min_length=1)]
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None

    @field_validator("input", mode="before")
    @classmethod
    def _check_items(cls, raw: Any) -> Any:
        for place, item in enumerate(raw if isinstance(raw, list) else ()):
            if isinstance(item, dict) and item.get("type", "message") != "message":
                raise unread(
                    "Only messages can be read here; write what was called, and what came of it, into their text.",
                    f"input.{place}.type",
                )
        return raw


class SystemoneRequest(AskedRequest):
    """Body of ``/v1/systemone``. ``engine.tasks.decisions.forms`` reads its questions."""

    state: Any
    questions: Annotated[dict[str, Any], Field(min_length=1)]
    instructions: str | None = None
    images: list[str] | None = None
    chat_template_kwargs: TemplateOptions | None = None
    request_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None

    @field_validator("chat_template_kwargs", mode="after")
    @classmethod
    def _check_thinking(cls, options: TemplateOptions | None) -> None:
        if options is not None and options.enable_thinking:
            raise unsupported(
                "An answer is read from the first token, without thinking; leave enable_thinking false.",
                "chat_template_kwargs.enable_thinking",
            )
