"""``/mcp``: the tools by Streamable HTTP, behind the same gate and with the same bounds as the other routes.

A client of today's revision sends each call by itself; closing its stream ends the run. One of an older revision has a
session, by which it can cancel a call.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from engine.server.bodies import read_json
from engine.server.context import ServerContext
from engine.server.mcp.calls import LEFT, PATH

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MAX_SESSIONS = 1_024  # of clients at a time; another one is refused
IDLE_SECONDS = 600.0  # after which a session is forgotten


def routes(context: ServerContext) -> list[Route]:
    return [Route(PATH, ToolsEndpoint(context), methods=["POST", "DELETE"])]


class ToolsEndpoint:
    """An ASGI application. Its sessions live in a task of the server's loop, which ends with the loop."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await read_json(request, self._context) if request.method == "POST" else b""
        watched = _WatchedClient(body, receive)
        scope["state"][LEFT] = watched.leaving
        manager = await self._running()
        await manager.handle_request(scope, watched.receive, send)

    async def _running(self) -> StreamableHTTPSessionManager:
        """Returns what holds the sessions; it begins with the first client."""
        async with self._starting:
            if self._manager is None:
                manager = await asyncio.to_thread(self._make)
                ready = asyncio.Event()
                self._task = asyncio.create_task(_hold(manager, ready))
                await ready.wait()
                self._manager = manager
        return self._manager

    def _make(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # half a second

        from engine.server.mcp.tools import build_server

        scheduler = self._context.scheduler
        return StreamableHTTPSessionManager(
            build_server(self._context, lambda: "" if scheduler.loading is None else None),
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=self._context.options.body_bytes,
            max_sessions=MAX_SESSIONS,
        )


async def _hold(manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
    async with manager.run():
        ready.set()
        await asyncio.Event().wait()  # until it is cancelled


class _WatchedClient:
    """Receives a request whose body has been read, and notes when its client leaves."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._left = asyncio.Event()

    async def receive(self) -> Message:
        """Receives the body as a whole, then what the client does."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._left.set()
        return message

    async def leaving(self) -> Message:
        """Receives nothing before the client leaves."""
        await self._left.wait()
        return {"type": "http.disconnect"}
