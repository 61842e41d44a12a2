"""The tools of the window: their servers, which of them models are offered, and calls with the user's leave."""

from __future__ import annotations

import contextlib
import functools
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices

from app.system.i18n import tr
from app.system.secret import Place
from app.tools.leave import Leave
from app.tools.store import ToolStore
from app.tools.tokens import KeyringTokens
from engine import SafelightError
from engine.tools.declared import ToolServer, is_loopback
from engine.tools.host import CALL_SECONDS, ToolHost
from engine.tools.state import ToolServerState
from engine.tools.tool import Tool, ToolResult


class Toolbox(QObject):
    """Keeps the declared servers running. Must be closed.

    ``changed`` is emitted in the window's thread when a server's state, the servers or the leave have changed.
    """

    changed = Signal()
    failed = Signal(str)  # why no browser was opened, in a sentence
    _noted = Signal()  # in the servers' thread
    _tokens_changed = Signal()  # in a thread of their own
    _address_asked = Signal(str, str)  # in the servers' thread: a server's name, and an address

    def __init__(self, folder: Path, *, is_offline: bool = False) -> None:
        super().__init__()
        self._store = ToolStore(folder)
        self._is_offline = is_offline
        self._tokens = KeyringTokens(self._store.signed_in, self._tokens_changed.emit)
        self._host = ToolHost(self._noted.emit, self._tokens, self._may_ask)
        self._noted.connect(self.changed)
        self._tokens_changed.connect(self._keep_sign_ins)
        self._address_asked.connect(self._open_address)
        self._declare()

    @property
    def problem(self) -> str:
        """A sentence about a fault of the file of tools; empty if there is none."""
        return self._store.problem

    @property
    def path(self) -> Path:
        """The file of tools."""
        return self._store.path

    @property
    def is_offline(self) -> bool:
        """True while servers on other machines are kept off."""
        return self._is_offline

    @property
    def servers(self) -> tuple[ToolServer, ...]:
        return self._store.servers

    @property
    def leave(self) -> Leave:
        return self._store.leave

    @property
    def states(self) -> tuple[ToolServerState, ...]:
        """The state of each declared server; those on other machines are off while the window is offline."""
        found = {state.server.name: state for state in self._host.states}
        off = tr("Safelight is offline, and this server is on another machine")
        return tuple(
            ToolServerState(server, problem=off)
            if server.is_on and self._is_kept_off(server)
            else found.get(server.name, ToolServerState(server))
            for server in self.servers
        )

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that a model is offered."""
        return tuple(
            tool
            for tool in self._host.tools
            if (server := self.server_of(tool)) is not None and self.leave.is_offered(server, tool.name)
        )

    def needs_leave(self, tool: Tool) -> bool:
        """True if the user must be asked before a tool is called; another window may have taken leave back."""
        if self._store.refresh():
            self._declare()
            self.changed.emit()
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

    def check(self, tool: Tool, arguments: dict[str, Any]) -> Future[str]:
        """Checks whether arguments fit a tool's schema; see ``ToolHost.check``."""
        return self._host.check(tool, arguments)

    def call(self, tool: Tool, arguments: dict[str, Any], seconds: float = CALL_SECONDS) -> Future[ToolResult]:
        """Calls a tool that is offered; see ``ToolHost.call``. The caller has the user's leave."""
        server = self.server_of(tool)
        if server is None or not self.leave.is_offered(server, tool.name):
            refused = Future[ToolResult]()
            refused.set_exception(SafelightError(tr("The tool {name} is not offered any more.", name=tool.called)))
            return refused
        return self._host.call(tool, arguments, seconds)

    def set_servers(self, servers: tuple[ToolServer, ...]) -> None:
        """Declares other servers, stores them, and starts and ends what has changed.

        Raises:
            SafelightError: they cannot be stored; the former ones stay.
        """
        now = {server.identity for server in servers}
        gone = [one for one in self.servers if one.identity not in now and self.place_of_tokens(one) != "nowhere"]
        self._store.write(servers=servers)
        self._declare()
        for server in gone:
            self._host.sign_out(server)
        self.changed.emit()

    def set_leave(self, leave: Leave) -> None:
        """Stores another leave.

        Raises:
            SafelightError: it cannot be stored; the former one stays.
        """
        self._store.write(leave=leave)
        self._declare()  # another window may have changed the servers
        self.changed.emit()

    def restart(self, name: str) -> None:
        """Ends a server and starts it again; a sign-in to it is cancelled."""
        self._host.restart(name)

    def sign_in(self, name: str) -> None:
        """Opens a server's sign-in in the browser; ``states`` show what becomes of it."""
        self._host.sign_in(name, functools.partial(self._address_asked.emit, name))

    def sign_out(self, name: str) -> None:
        """Removes what a server gave at a sign-in."""
        for server in self.servers:
            if server.name == name:
                self._host.sign_out(server)

    def place_of_tokens(self, server: ToolServer) -> Place:
        """Returns the place of what a server gave at a sign-in; "nowhere" if nobody is signed in."""
        return self._tokens.place_of(server.identity)

    @Slot(str, str)
    def _open_address(self, name: str, address: str) -> None:
        if not QDesktopServices.openUrl(QUrl(address)):
            self._host.restart(name)
            self.failed.emit(tr("No browser could be opened. Choose a default browser in the system's settings."))

    @Slot()
    def _keep_sign_ins(self) -> None:
        kept = self._tokens.kept
        if kept != self._store.signed_in:
            with contextlib.suppress(SafelightError):  # then the user signs in again after the next start
                self._store.write(signed_in=kept)
        self.changed.emit()

    def _may_ask(self, host: str) -> bool:
        return not self._is_offline or is_loopback(host)

    @Slot(bool)
    def set_offline(self, is_offline: bool) -> None:
        """Ends or starts the servers on other machines."""
        if is_offline != self._is_offline:
            self._is_offline = is_offline
            self._declare()
            self.changed.emit()

    def close(self) -> None:
        self._noted.disconnect(self.changed)
        self._address_asked.disconnect(self._open_address)
        self._host.close()

    def _declare(self) -> None:
        self._host.declare(self._running())

    def _running(self) -> list[ToolServer]:
        return [server for server in self.servers if server.is_on and not self._is_kept_off(server)]

    def _is_kept_off(self, server: ToolServer) -> bool:
        return self._is_offline and server.is_remote

    def server_of(self, tool: Tool) -> ToolServer | None:
        """The server that declared a tool; None if it is gone, or another has its name."""
        found = (server for server in self.servers if server.name == tool.server)
        return next((server for server in found if server.identity == tool.identity), None)
