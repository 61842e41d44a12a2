"""Access control before any route: the Host and Origin of a request, its key, and the headers for web pages.

A web page whose own name leads to this machine (DNS rebinding) is stopped by its Host; a page that uses our address, by
its Origin; a program without the key, by that.
"""

from __future__ import annotations

import hmac
import ipaddress
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server import page
from engine.server.errors import ApiError
from engine.server.options import LOOPBACK_NAMES, ServerOptions

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
        found = _HOST.fullmatch(host[0]) if len(host) == 1 else None
        name = found[1].lower() if found else ""
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
