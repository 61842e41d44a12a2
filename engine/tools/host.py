"""All tool servers, in a thread of their own with one event loop. Its methods may be called from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from engine.errors import SafelightError
from engine.tools.declared import ToolServer
from engine.tools.tool import Tool, ToolResult, ToolServerState, distinct

if TYPE_CHECKING:
    from engine.tools.connection import Connection

CALL_SECONDS = 120.0  # that a tool may take
CLOSE_SECONDS = 10.0


class ToolHost:
    """Keeps the servers that are declared connected. Must be closed.

    The thread is started with the first server that is on; without any, nothing is imported either.

    Args:
        changed: called in the thread of the servers when a state has changed; must not block.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self._changing = asyncio.Lock()  # held while connections are exchanged
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: dict[str, Connection] = {}  # by name; touched in the thread alone
        self._leaving: set[Connection] = set()  # those that are being closed
        self._states: dict[str, ToolServerState] = {}
        self._declared: tuple[ToolServer, ...] = ()
        self._is_closed = False

    def declare(self, servers: Sequence[ToolServer]) -> None:
        """Starts the servers that are on and new or changed, and ends those that are gone; does not wait for them."""
        with self._lock:
            if self._is_closed:
                return
            self._declared = tuple(servers)
            if self._loop is None and not any(server.is_on for server in servers):
                return
            loop = self._opened()
        asyncio.run_coroutine_threadsafe(self._follow(tuple(servers)), loop)

    @property
    def states(self) -> tuple[ToolServerState, ...]:
        """The present state of each declared server, in their order."""
        with self._lock:
            return tuple(self._states.get(server.name) or ToolServerState(server) for server in self._declared)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of all servers, each called by a name of its own."""
        with self._lock:
            states = [self._states[server.name] for server in self._declared if server.name in self._states]
        return distinct(tool for state in states for tool in state.tools)

    def call(self, tool: Tool, arguments: dict[str, Any], seconds: float = CALL_SECONDS) -> Future[ToolResult]:
        """Calls a tool; cancelling the future ends the call.

        The future raises ``SafelightError`` if the server is not declared or cannot be reached.
        """
        with self._lock:
            loop = None if self._is_closed else self._loop
        if loop is None:
            failed = Future[ToolResult]()
            failed.set_exception(SafelightError(f"{tool.server} is not running"))
            return failed
        return asyncio.run_coroutine_threadsafe(self._call(tool, arguments, seconds), loop)

    def restart(self, name: str) -> None:
        """Ends a server and starts it again; does not wait for it."""
        with self._lock:
            if not self._is_closed:
                asyncio.run_coroutine_threadsafe(self._restart(name), self._opened())

    def close(self) -> None:
        """Ends all servers and the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            was_closed, self._is_closed = self._is_closed, True
        if was_closed or loop is None or thread is None:
            return
        closing = asyncio.run_coroutine_threadsafe(self._follow(()), loop)
        with contextlib.suppress(TimeoutError):
            closing.result(CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_SECONDS)

    def _opened(self) -> asyncio.AbstractEventLoop:
        """Returns the loop, in its thread, which is started if there is none."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="safelight-tools", daemon=True)
            self._thread.start()
        return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=CLOSE_SECONDS))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def _follow(self, servers: tuple[ToolServer, ...]) -> None:
        from engine.tools.connection import Connection  # imports the protocol's library, in this thread

        by_name = {server.name: server for server in servers if server.is_on}
        async with self._changing:
            gone = [one for name, one in self._connections.items() if by_name.get(name) != one.server]
            for one in gone:
                del self._connections[one.server.name]
            self._leaving |= set(gone)
            for name, server in by_name.items():
                if name not in self._connections:
                    connection = Connection(server, self._note)
                    self._connections[name] = connection
                    connection.start()
        self._note()
        await asyncio.gather(*(one.close() for one in self._leaving))
        self._leaving -= set(gone)

    async def _restart(self, name: str) -> None:
        async with self._changing:
            one = self._connections.pop(name, None)  # so that no call starts it meanwhile
            if one is not None:
                await one.close()
                self._connections[name] = one
                one.start()

    def _note(self) -> None:
        with self._lock:
            self._states = {name: one.state for name, one in self._connections.items()}
        self._changed()

    async def _call(self, tool: Tool, arguments: dict[str, Any], seconds: float) -> ToolResult:
        connection = self._connections.get(tool.server)
        if connection is None:
            raise SafelightError(f"{tool.server} is not running; switch it on in the settings, under Tools")
        if connection.server.identity != tool.identity:
            raise SafelightError(f"{tool.server} is another server now")
        return await connection.call(tool.name, arguments, seconds)
