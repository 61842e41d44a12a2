"""``/v1/responses``: a chat in another format, with its answer as items, and calls of the user's tools."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from engine.server.bodies import large_body
from engine.server.context import ServerContext
from engine.server.hosted_tools import hosted_tools
from engine.server.response_plans import ResponsePlans
from engine.server.response_rounds import PATH, ResponseRounds
from engine.server.response_writer import ResponsesWriter
from engine.server.responses_request import ResponsesRequest
from engine.server.serving import RunResponse


def routes(context: ServerContext) -> list[Route]:
    async def respond(request: Request) -> ASGIApp:
        async with AsyncExitStack() as room:
            body = await room.enter_async_context(large_body(request, context, ResponsesRequest))
            hosted = await hosted_tools(context.tools, body.servers, (tool.name for tool in body.functions))
            plans = await asyncio.to_thread(ResponsePlans, context, body, hosted)
            writer = ResponsesWriter(plans.first, body, plans.keep, hosted, plans.listed)
            if context.tools is not None and body.servers:
                rest = room.pop_all()
                return ResponseRounds(context, context.tools, plans, writer, rest, is_streamed=bool(body.stream))
        return RunResponse(context, (plans.first,), writer, PATH, is_streamed=bool(body.stream))

    async def kept(request: Request) -> Response:
        return JSONResponse(context.kept.find(request.path_params["name"]))

    async def forget(request: Request) -> Response:
        name = request.path_params["name"]
        context.kept.forget(name)
        return JSONResponse({"id": name, "object": "response.deleted", "deleted": True})

    return [
        Route(PATH, respond, methods=["POST"]),
        Route(f"{PATH}/{{name}}", kept, methods=["GET"]),
        Route(f"{PATH}/{{name}}", forget, methods=["DELETE"]),
    ]
