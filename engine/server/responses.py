"""``/v1/responses``: a chat in another format, with its answer as items."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server.bodies import large_body
from engine.server.chat import plan_chat
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.response_writer import ResponsesWriter
from engine.server.responses_request import ResponsesRequest, chat_of, renamed
from engine.server.serving import RunResponse

PATH = "/v1/responses"


def routes(context: ServerContext) -> list[Route]:
    async def respond(request: Request) -> RunResponse:
        async with AsyncExitStack() as room:
            body = await room.enter_async_context(large_body(request, context, ResponsesRequest))
            writer = await asyncio.to_thread(_writer, context, body)
        return RunResponse(context, (writer.plan,), writer, PATH, is_streamed=bool(body.stream))

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


def _writer(context: ServerContext, sent: ResponsesRequest) -> ResponsesWriter:
    """Plans a response's run, and returns what will write it.

    Raises:
        ApiError: it cannot be run as requested.
    """
    kept = context.kept
    conversation = kept.open(sent.input, sent.previous_response_id)
    body = sent.model_copy(update={"input": conversation.items})
    try:
        chat = chat_of(body)
        try:
            plan = plan_chat(context, chat)
        except ApiError as error:
            raise renamed(error, body, chat) from None
    except ApiError as error:
        if conversation.items != sent.input and (error.param or "").startswith("input."):
            error.param = "input"  # its places are others than those of what was sent
        raise
    if plan.format_field == "response_format":
        plan = dataclasses.replace(plan, format_field="text.format")
    is_kept = sent.store is not False and kept.has_room(conversation)
    return ResponsesWriter(plan, sent, functools.partial(kept.keep, conversation) if is_kept else None)
