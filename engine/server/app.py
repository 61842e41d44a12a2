"""The server as an ASGI application: its routes behind the gate, and every failure as an error object.

The gate looks at a request's Host, Origin and key before any route, and sets the headers for web pages. A web page
whose own name leads to this machine (DNS rebinding) is stopped by its Host; a page that uses our address, by its
Origin; a program without the key, by that.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
import secrets
import traceback
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
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
from engine.server.options import LOOPBACK_NAMES, ServerOptions
from engine.server.strict import Ignored

PUBLIC_PATHS = frozenset({*page.FILES, "/health", "/v1/health"})  # they reveal nothing private
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "*, authorization, content-type, x-api-key",
    "Access-Control-Max-Age": "600",  # seconds
}
CALLER = "caller"  # of a request's state
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


class Caller:
    """Facts known about a connection's client."""

    has_key = False  # a request has shown it


class Gate:
    """ASGI middleware that passes on only allowed requests."""

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self._app = app
        self._key = options.api_key.encode()
        self._origins = frozenset(options.origins)
        names = {*LOOPBACK_NAMES, *options.hosts, options.host, f"[{options.host}]"}
        self._hosts = frozenset(name.lower() for name in names)
        self._takes_addresses = not options.is_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        listed = origin if origin in self._origins else None

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and listed is not None:
                response = MutableHeaders(scope=message)
                response["Access-Control-Allow-Origin"] = listed
                response["Access-Control-Expose-Headers"] = "x-request-id, x-safelight-ignored, retry-after"
                response.add_vary_header("Origin")
            await send(message)

        try:
            if "content-length" in headers and "transfer-encoding" in headers:
                raise ApiError(400, "Send Content-Length or chunks, not both.")
            self._check_place(scope, headers, origin)
            if scope["method"] == "OPTIONS" and listed is not None and "access-control-request-method" in headers:
                await Response(status_code=204, headers=PREFLIGHT)(scope, receive, sending)
                return
            if scope["path"] not in PUBLIC_PATHS:
                self._check_key(headers)
                scope["state"][CALLER].has_key = True
        except ApiError as error:
            error.headers.setdefault("Connection", "close")  # its body is not read
            await error.response(scope, receive, sending)
            return
        await self._app(scope, receive, sending)

    def _check_place(self, scope: Scope, headers: Headers, origin: str | None) -> None:
        host = headers.getlist("host")
        match = _HOST.fullmatch(host[0]) if len(host) == 1 else None
        name = match[1].lower() if match else ""
        if name not in self._hosts and not (self._takes_addresses and _is_address(name)):
            raise ApiError(
                403,
                "This name of the server (Host) is not allowed; add it with --allow-host.",
                code="host_not_allowed",
            )
        if origin is not None and origin not in self._origins and origin != f"{scope['scheme']}://{host[0]}":
            raise ApiError(
                403, "Pages of this origin may not use the server; add it with --origin.", code="origin_not_allowed"
            )

    def _check_key(self, headers: Headers) -> None:
        kind, _, key = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            key = headers.get("x-api-key", "")
        if not hmac.compare_digest(key.strip().encode(), self._key):
            raise ApiError(
                401,
                "The key is missing or wrong. Send the key that the server shows, as Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )


def _is_address(name: str) -> bool:
    """Returns True for a numeric address: it needs no name service, so nobody can redirect it."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


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
    message = SENTENCES.get(error.status_code, str(error.detail))
    return ApiError(error.status_code, message, headers=error.headers).response


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
