"""The tools of the window: their servers, which of them models are offered, and calls with the user's leave."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from app.system.i18n import tr
from app.tools.store import Leave, ToolStore
from engine import SafelightError
from engine.tools.declared import ToolServer
from engine.tools.host import ToolHost
from engine.tools.tool import Tool, ToolResult, ToolServerState


class Toolbox(QObject):
    """Keeps the declared servers running. Must be closed.

    ``changed`` is emitted in the window's thread when a server's state, the servers or the leave have changed.
    """

    changed = Signal()
    _noted = Signal()  # in the servers' thread

    def __init__(self, folder: Path, *, is_offline: bool = False) -> None:
        super().__init__()
        self.store = ToolStore(folder)
        self.is_offline = is_offline  # servers on other machines are kept off
        self._host = ToolHost(self._noted.emit)
        self._noted.connect(self.changed)
        self._declare()

    @property
    def servers(self) -> tuple[ToolServer, ...]:
        return self.store.servers

    @property
    def leave(self) -> Leave:
        return self.store.leave

    @property
    def states(self) -> tuple[ToolServerState, ...]:
        """The state of each declared server; those on other machines are off while the window is offline."""
        by_name = {state.server.name: state for state in self._host.states}
        off = tr("Safelight is offline, and this server is on another machine")
        return tuple(
            ToolServerState(server, problem=off)
            if server.is_on and self._is_kept_off(server)
            else by_name.get(server.name, ToolServerState(server))
            for server in self.servers
        )

    @property
    def offered(self) -> tuple[Tool, ...]:
        return tuple(
            tool
            for tool in self._host.tools
            if (server := self.server_of(tool)) is not None and self.leave.is_offered(server, tool.name)
        )

    def refresh(self) -> None:
        """Takes over what another window has changed; before each change here."""
        if self.store.refresh():
            self._declare()
            self.changed.emit()

    def needs_leave(self, tool: Tool) -> bool:
        """True if the user must be asked before a tool is called; another window may have taken leave back."""
        self.refresh()
        server = self.server_of(tool)
        return server is None or not self.leave.is_free(server, tool)

    def grant(self, tool: Tool) -> None:
        """Lets a tool be called without a question from now on.

        Raises:
            SafelightError: it cannot be stored.
        """
        server = self.server_of(tool)
        if server is not None:
            self.set_leave(self.leave.granting(server, tool.name, always=True))

    def call(self, tool: Tool, arguments: dict[str, Any]) -> Future[ToolResult]:
        """Calls a tool that is offered; see ``ToolHost.call``. The caller has the user's leave."""
        server = self.server_of(tool)
        if server is None or not self.leave.is_offered(server, tool.name):
            refused = Future[ToolResult]()
            refused.set_exception(SafelightError(tr("The tool {name} is not offered any more.", name=tool.called)))
            return refused
        return self._host.call(tool, arguments)

    def set_servers(self, servers: tuple[ToolServer, ...]) -> None:
        """Declares other servers, stores them, and starts and ends what has changed.

        Raises:
            SafelightError: they cannot be stored; the former ones stay.
        """
        self.store.write(servers=servers)
        self._declare()
        self.changed.emit()

    def set_leave(self, leave: Leave) -> None:
        """Stores another leave.

        Raises:
            SafelightError: it cannot be stored; the former one stays.
        """
        self.store.write(leave=leave)
        self.changed.emit()

    def restart(self, name: str) -> None:
        """Ends a server and starts it again."""
        self._host.restart(name)

    @Slot(bool)
    def set_offline(self, is_offline: bool) -> None:
        """Ends or starts the servers on other machines."""
        if is_offline != self.is_offline:
            self.is_offline = is_offline
            self._declare()
            self.changed.emit()

    def close(self) -> None:
        self._noted.disconnect(self.changed)
        self._host.close()

    def _declare(self) -> None:
        self._host.declare([server for server in self.servers if server.is_on and not self._is_kept_off(server)])

    def _is_kept_off(self, server: ToolServer) -> bool:
        return self.is_offline and server.is_remote

    def server_of(self, tool: Tool) -> ToolServer | None:
        """The server that declared a tool; None if it is gone, or another has its name."""
        named = (server for server in self.servers if server.name == tool.server)
        return next((server for server in named if server.identity == tool.identity), None)
