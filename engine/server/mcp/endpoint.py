"""``/mcp``: the tools by Streamable HTTP, behind the same gate and with the same bounds as the other routes.

A client of today's revision sends each call by itself; closing its stream ends the run. One of an older revision has a
session, by which it can cancel a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from engine.server.bodies import read_json
from engine.server.context import ServerContext
from engine.server.mcp.calls import LEFT, PATH
from engine.server.mcp.lines import INVALID_REQUEST
from engine.server.mcp.tools import ServedTools

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MOST_SESSIONS = 256  # of clients at a time; another one ends the one that was not used for the longest time
SESSION = b"mcp-session-id"  # the header
IDLE_SECONDS = 1_800.0  # after which a session is forgotten


def routes(context: ServerContext) -> list[Route]:
    return [Route(PATH, ToolsEndpoint(context), methods=["POST", "DELETE"])]


class ToolsEndpoint:
    """An ASGI application. Its sessions live in a task of the server's loop, which ends with the loop."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._starting = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._task: asyncio.Task[None] | None = None
        self._sessions: dict[str, int] = {}  # each with its calls at the moment; the longest unused first
        self._opening = set[object]()  # requests whose sessions are not among these yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body, message = await read_json(request, self._context) if request.method == "POST" else (b"", None)
        if message is not None and not _is_message(message):  # the library would answer with its validator's words
            error = {"code": INVALID_REQUEST, "message": "Send one message of JSON-RPC 2.0."}
            await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)(scope, receive, send)
            return
        manager, watched = await self._running(), _WatchedClient(body, receive)
        scope["state"][LEFT] = watched.leaving
        session = request.headers.get(SESSION.decode())
        if session in self._sessions:
            self._sessions[session] = self._sessions.pop(session) + 1
            try:
                await manager.handle_request(scope, watched.receive, send)
            finally:
                if request.method == "DELETE":
                    self._sessions.pop(session, None)
                elif session in self._sessions:
                    self._sessions[session] -= 1
        elif session is None and message is not None and message.get("method") == "initialize":
            opening = object()
            self._opening.add(opening)
            try:
                await self._make_room(manager, scope)
                await manager.handle_request(scope, watched.receive, self._noting(opening, send))
            finally:
                self._opening.discard(opening)
        else:
            await manager.handle_request(scope, watched.receive, send)

    async def _make_room(self, manager: StreamableHTTPSessionManager, scope: Scope) -> None:
        """Ends the session that was not used for the longest time, if there are too many and it has no call."""
        idle = next((session for session, calls in self._sessions.items() if not calls), None)
        if idle is None or len(self._sessions) + len(self._opening) <= MOST_SESSIONS:
            return
        del self._sessions[idle]
        ended = {**scope, "method": "DELETE", "headers": [(SESSION, idle.encode())]}
        await manager.handle_request(ended, _nothing_more, _drop)

    def _noting(self, opening: object, send: Send) -> Send:
        """Returns ``send``, which notes the session that an answer opens."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._opening.discard(opening)
                opened = dict(message["headers"]).get(SESSION)
                if opened is not None and message["status"] < 400:
                    self._sessions[opened.decode()] = 0
            await send(message)

        return sending

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

        from engine.server.mcp.protocol import build_server

        return StreamableHTTPSessionManager(
            build_server(ServedTools(self._context)),
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=self._context.options.body_bytes,
            max_sessions=MOST_SESSIONS,
        )


async def _hold(manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
    async with manager.run():
        ready.set()
        await asyncio.Event().wait()  # until it is cancelled


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _drop(_message: Message) -> None:
    """Sends nothing."""


def _is_message(sent: Mapping[str, Any]) -> bool:
    """Returns True for a request, a notification, or an answer to a request."""
    match sent:
        case {"jsonrpc": "2.0", "method": str(), **more}:
            return isinstance(more.get("params"), dict | None)
        case {"jsonrpc": "2.0", "id": int() | str(), "result": dict()}:
            return True
        case {"jsonrpc": "2.0", "id": int() | str() | None, "error": {"code": int(), "message": str()}}:
            return True
    return False


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
