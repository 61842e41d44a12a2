"""``/v1/decisions`` and ``/v1/systemone``: typed answers about a state, each read from one denoising step."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.routing import Route

from engine.server.answered import decisions_body, systemone_body
from engine.server.asked import AskedQuestions, read_decisions, read_systemone
from engine.server.bodies import large_body
from engine.server.context import ServerContext
from engine.server.deciding import DecisionPlan, DecisionResponse, plan_decision
from engine.server.decisions_request import AskedRequest, DecisionsRequest, SystemoneRequest

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
