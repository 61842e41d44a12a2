"""``/v1/decisions``: typed answers about a state, each read from one denoising step."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StrictBool, StrictStr, field_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive

from engine.errors import SafelightError, quoted, sentence
from engine.server.bodies import MAX_FIELD, large_body
from engine.server.chunks import usage_of_items
from engine.server.context import ServerContext
from engine.server.errors import UNSUPPORTED, ApiError, elsewhere, refusing, unread, unsupported
from engine.server.messages import SentImage, SentImages, input_image
from engine.server.runs import ServedRun, client_of
from engine.server.schemas import MAX_MESSAGES, ModelName
from engine.server.strict import Strict
from engine.service import (
    DecisionReads,
    DecisionRun,
    DecisionUsage,
    LoadedModel,
    RunAdvanced,
    decision_requests,
    is_remote,
)
from engine.service.small import decider
from engine.tasks.decisions.answers import TypedAnswer
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


@dataclass(frozen=True, eq=False)
class DecisionPlan:
    """The runs of a request, ready to begin; one flag cancels all of them."""

    requests: tuple[DecisionRun, ...]
    model: LoadedModel
    name: str  # of the model, as shown in the answer


def plan_decision(context: ServerContext, body: DecisionsRequest, asked: AskedQuestions) -> DecisionPlan:
    """Plans the runs of a request. Slow: it counts tokens, and decodes images.

    Raises:
        ApiError: the model is another, or cannot decide, or the request does not fit it.
    """
    whole, adapter = context.pick(body.model)
    model = whole.part(decider(asked.images))
    if is_remote(model.path_or_id):
        raise elsewhere()
    if not model.capabilities.decisions:
        raise ApiError(501, f"The model {model.name} cannot decide; load another one.", code=UNSUPPORTED)
    if asked.instructions and not model.reads_system:
        raise unsupported(
            f"The model {model.name} reads no system message; put the instructions into the state or the questions.",
            "input",
        )
    images = SentImages(model, context.pictures)
    for place, sent in enumerate(asked.images):
        images.open(sent)
        if len(images.pictures) <= place:
            raise unsupported("An image is there twice; send it once.", sent.where)
    config = images.budget(model.defaults)
    with refusing("input"):
        requests = decision_requests(
            model,
            asked.state,
            asked.questions,
            instructions=asked.instructions,
            adapter=adapter,
            keep=context.options.keeps_traces,
            pictures=images.pictures,
            image_tokens=config.image_tokens,
        )
    cancel = threading.Event()
    return DecisionPlan(
        tuple(dataclasses.replace(request, cancel=cancel, prepared_for=model.path_or_id) for request in requests),
        model,
        model.name if whole.parts else body.model or model.name,
    )


async def decided(
    context: ServerContext, plan: DecisionPlan, endpoint: str, client: str, receive: Receive | None
) -> tuple[list[TypedAnswer], DecisionUsage, str]:
    """Runs a plan; returns all answers in order, their usage, and the name of the request among the live ones.

    Raises:
        ApiError: a run has failed, or ended without a read, or another model was loaded.
    """
    all_reads = {request.run_id: DecisionReads(request.decision) for request in plan.requests}
    fingerprint = plan.model.fingerprint
    served = ServedRun(
        context, plan.requests, endpoint, plan.name, "input", client=client, receive=receive, fingerprint=fingerprint
    )
    async with served as run:
        async for reply in run.replies():
            if isinstance(reply, RunAdvanced):
                all_reads[reply.run_id].add(reply)
        try:
            answers = [answer for reads in all_reads.values() for answer in reads.answers()]
        except SafelightError as error:
            raise ApiError(500, sentence(error)) from None
        usages = [reads.usage for reads in all_reads.values()]
        usage = DecisionUsage(
            sum(one.prompt_tokens for one in usages),
            sum(one.reused_tokens for one in usages),
            sum(one.answer_tokens for one in usages),
        )
        run.note_tokens(usage.answer_tokens)
        return answers, usage, run.id


PATH = "/v1/decisions"


def routes(context: ServerContext) -> list[Route]:
    async def decide(request: Request) -> Response:
        async with large_body(request, context, DecisionsRequest) as body:
            plan = await asyncio.to_thread(plan_decision, context, body, read_decisions(body))
        answers, usage, _ = await decided(context, plan, PATH, client_of(request.scope), request.receive)
        costs = usage_of_items(usage.prompt_tokens, usage.reused_tokens, usage.answer_tokens)
        return JSONResponse({"model": plan.name, "answers": list(map(_decisions_answer, answers)), "usage": costs})

    return [Route(PATH, decide, methods=["POST"])]


def _decisions_answer(answer: TypedAnswer) -> dict[str, Any]:
    """Writes an answer in OpenAI's form."""
    name, shares = answer.question.name or None, answer.probabilities
    match answer.question:
        case YesNo():
            return {"type": "predicate", "name": name, "probability": shares[0]}
        case OneOf(options=options):
            values = [json.loads(option.name) for option in options]  # in the form in which they were sent
            each = [{"value": value, "probability": share} for value, share in zip(values, shares, strict=True)]
            written = {"type": "choice", "name": name, "choice": values[answer.best], "probabilities": each}
        case Score(levels=levels):
            each = [
                {"value": value, "label": level.name, "probability": share}
                for value, (level, share) in enumerate(zip(levels, shares, strict=True))
            ]
            written = {"type": "score", "name": name, "score": answer.score, "probabilities": each}
    return written | {"confidence": answer.confidence}
