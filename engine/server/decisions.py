"""``/v1/decisions`` and ``/v1/systemone``: typed answers about a state, each read from one denoising step."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from engine.server.asked import AskedQuestions, read_decisions, read_systemone
from engine.server.bodies import large_body
from engine.server.context import ServerContext
from engine.server.deciding import Decided, DecisionPlan, DecisionResponse, plan_decision
from engine.server.decisions_request import AskedRequest, DecisionsRequest, SystemoneRequest
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.forms import spread_of, systemone_answer
from engine.tasks.decisions.questions import OneOf, Score, YesNo

DECISIONS, SYSTEMONE = "/v1/decisions", "/v1/systemone"
SMALL = 4_096  # bytes of a request whose tokens are counted at once: passing it to another thread takes longer


def routes(context: ServerContext) -> list[Route]:
    async def decide(request: Request) -> DecisionResponse:
        async with large_body(request, context, DecisionsRequest) as body:
            plan = await _planned(request, context, body, read_decisions(body))
        return DecisionResponse(context, plan, DECISIONS, decisions_body)

    async def systemone(request: Request) -> DecisionResponse:
        async with large_body(request, context, SystemoneRequest) as body:
            plan = await _planned(request, context, body, read_systemone(body))
        return DecisionResponse(context, plan, SYSTEMONE, systemone_body)

    return [Route(DECISIONS, decide, methods=["POST"]), Route(SYSTEMONE, systemone, methods=["POST"])]


async def _planned(request: Request, context: ServerContext, body: AskedRequest, asked: AskedQuestions) -> DecisionPlan:
    size = request.headers.get("content-length", "")
    if 0 < len(size) < 5 and int(size) <= SMALL and not asked.images:  # it was read, so it is a number
        return plan_decision(context, body, asked)
    return await asyncio.to_thread(plan_decision, context, body, asked)


def decisions_body(plan: DecisionPlan, decided: Decided) -> dict[str, Any]:
    """Returns the body of an answer of ``/v1/decisions``."""
    usage = decided.usage
    return {
        "model": plan.name,
        "answers": [_decisions_answer(answer, has_repeats=plan.has_repeats) for answer in decided.answers],
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.reused_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.answer_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.answer_tokens,
        },
    }


def systemone_body(plan: DecisionPlan, decided: Decided) -> dict[str, Any]:
    """Returns the body of an answer of ``/v1/systemone``."""
    named = [(answer.question.name, answer) for answer in decided.answers]
    canvases = [
        {"questions": [question.name for question in one.questions], "width": one.width, "slots": list(one.slots)}
        for one in decided.canvases
    ]
    return {
        "id": f"decision-{plan.id or plan.requests[0].run_id}",
        "object": "structured_decision",
        "created": int(time.time()),
        "model": plan.name,
        "answers": {name: _systemone_answer(answer, has_repeats=plan.has_repeats) for name, answer in named},
        "usage": {"input_tokens": decided.usage.prompt_tokens, "output_tokens": decided.usage.answer_tokens},
        "diagnostics": {
            name: {"label_mass": answer.label_mass, "argmax_is_label": answer.argmax_is_label} for name, answer in named
        },
        "joint": {"canvases": canvases} if plan.is_joint else None,
    }


def _decisions_answer(answer: TypedAnswer, *, has_repeats: bool) -> dict[str, Any]:
    """Writes an answer in OpenAI's form; ``spread`` of repeated reads is in the order of the probabilities."""
    question, shares = answer.question, answer.probabilities
    written: dict[str, Any]
    match question:
        case YesNo():
            written = {"type": "predicate", "name": question.name or None, "probability": shares[0]}
        case OneOf(options=options):
            values = [json.loads(option.name) for option in options]  # in the form in which they were sent
            written = {
                "type": "choice",
                "name": question.name or None,
                "choice": values[answer.best],
                "probabilities": [
                    {"value": value, "probability": share} for value, share in zip(values, shares, strict=True)
                ],
                "confidence": answer.confidence,
            }
        case Score(levels=levels):
            written = {
                "type": "score",
                "name": question.name or None,
                "score": answer.score,
                "probabilities": [
                    {"value": value, "label": level.name, "probability": share}
                    for value, (level, share) in enumerate(zip(levels, shares, strict=True))
                ],
                "confidence": answer.confidence,
            }
    spread = answer.spread[0] if isinstance(question, YesNo) else list(answer.spread)
    return written | (_repeats(answer, spread) if has_repeats else {})


def _systemone_answer(answer: TypedAnswer, *, has_repeats: bool) -> dict[str, Any]:
    return systemone_answer(answer) | (_repeats(answer, spread_of(answer)) if has_repeats else {})


def _repeats(answer: TypedAnswer, spread: object) -> dict[str, Any]:
    return {"reads": answer.reads, "spread": spread, "agreement": answer.agreement}
