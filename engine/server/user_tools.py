"""The tools of the user's servers, for clients of this server. Knows no HTTP, and no model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from engine.errors import SafelightError
from engine.tools.declared import ToolServer
from engine.tools.host import ToolHost
from engine.tools.state import ToolServerState
from engine.tools.tool import Tool, ToolResult


class UserTools:
    """The tools that clients of the server may use.

    Args:
        host: of the servers that are declared. Whoever made it closes it.
        is_offered: returns True if the user lets models be offered a tool, by its server and its name.
    """

    def __init__(self, host: ToolHost, is_offered: Callable[[ToolServer, str], bool]) -> None:
        self._host, self._is_offered = host, is_offered

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of the servers."""
        return tuple(state.server.name for state in self._host.states)

    def reach(self, server: str) -> Future[ToolServerState]:
        """Waits for a server; see ``ToolHost.reach``."""
        return self._host.reach(server)

    def offered(self, state: ToolServerState) -> tuple[Tool, ...]:
        """Returns the tools of a server that clients may use."""
        return tuple(tool for tool in state.tools if self._is_offered(state.server, tool.name))

    async def call(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Calls a tool if the arguments fit it. A failure is a result, too; cancelling this ends the call."""
        try:
            problem = await asyncio.wrap_future(self._host.check(tool, arguments))
            if problem:
                return ToolResult(f"The arguments do not fit: {problem}", is_error=True)
            return await asyncio.wrap_future(self._host.call(tool, arguments))
        except SafelightError as error:
            return ToolResult(str(error), is_error=True)
