"""``/v1/decisions``: typed answers about a state, each read from one denoising step."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive

from engine.errors import SafelightError
from engine.server.bodies import large_body
from engine.server.chunks import usage_of_items
from engine.server.context import ServerContext
from engine.server.decisions_request import (
    AskedQuestions,
    DecisionsRequest,
    read_decisions,
)
from engine.server.errors import UNSUPPORTED, ApiError, elsewhere, refusing, sentence, unsupported
from engine.server.messages import SentImages
from engine.server.runs import ServedRun, client_of
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
from engine.tasks.decisions.questions import OneOf, Score, YesNo


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
        taken = [reads.usage for reads in all_reads.values()]
        usage = DecisionUsage(
            sum(one.prompt_tokens for one in taken),
            sum(one.reused_tokens for one in taken),
            sum(one.answer_tokens for one in taken),
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
            found = {"type": "choice", "name": name, "choice": values[answer.best], "probabilities": each}
        case Score(levels=levels):
            each = [
                {"value": value, "label": level.name, "probability": share}
                for value, (level, share) in enumerate(zip(levels, shares, strict=True))
            ]
            found = {"type": "score", "name": name, "score": answer.score, "probabilities": each}
    return found | {"confidence": answer.confidence}
