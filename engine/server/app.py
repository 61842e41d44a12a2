"""The server as an ASGI application: its routes behind the gate, and every failure as an error object."""

from __future__ import annotations

import logging
import secrets
import traceback
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server import (
    anthropic,
    chat,
    completions,
    decisions,
    dialect,
    infill,
    info,
    ollama,
    page,
    responses,
)
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.mcp import endpoint as mcp
from engine.server.security import Gate
from engine.server.strict import Ignored

ROUTES = (
    info.routes,
    chat.routes,
    completions.routes,
    infill.routes,
    responses.routes,
    anthropic.routes,
    ollama.routes,
    decisions.routes,
    dialect.routes,
    mcp.routes,
    page.routes,
)
ERROR_BODIES = {anthropic.PATH: anthropic.error_body, "/api/": ollama.error_body}
"""The formats of refusals by the beginnings of paths; at others it is OpenAI's."""
SENTENCES = {
    404: "There is nothing at this path; the routes are those of OpenAI's API, under /v1.",
    405: "This path does not take that method.",
}
log = logging.getLogger("safelight.server")


def build_app(context: ServerContext) -> Starlette:
    """Builds the application with all routes of one server."""
    routes = [route for make in ROUTES for route in make(context)]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(_Noted),
            Middleware(Gate, options=context.options),
            Middleware(_Caught),
        ],
        exception_handlers={ApiError: _refuse, HTTPException: _refuse_by_status},
    )


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    write = next((write for path, write in ERROR_BODIES.items() if request.url.path.startswith(path)), None)
    return error.response if write is None else JSONResponse(write(error), error.status, error.headers)


async def _refuse_by_status(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = SENTENCES.get(error.status_code, str(error.detail))
    return ApiError(error.status_code, said, headers=error.headers).response


class _Caught:
    """ASGI middleware that turns an internal fault into an error object."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def sending(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = type(error).__name__  # its message may quote a prompt
            log.error("a request failed: %s in %s:%d", kind, Path(place.filename).name, place.lineno)
            if not is_started:
                failure = ApiError(500, f"Something went wrong in the server ({kind}).")
                await failure.response(scope, receive, send)


class _Noted:
    """ASGI middleware that gives each answer an id, and names the fields of its request that were passed over."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ignored = scope["state"]["ignored"] = Ignored()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = f"req_{secrets.token_hex(12)}"
                if ignored.names:
                    headers["x-safelight-ignored"] = ", ".join(ignored.names)
            await send(message)

        await self._app(scope, receive, sending)
