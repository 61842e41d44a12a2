"""The named actions of the local server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication

from app.bridge.server_link import is_unfinished
from app.context import AppContext, Lazy
from app.design.action import Action
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.server.controller import ServerController


def actions(context: AppContext, _page: Lazy[ServerController]) -> list[Action]:
    """Returns the actions: the switch, copying the address, and cancelling all requests."""
    section, server = tr("Server"), context.server

    def switch() -> None:
        context.choose_server("server", not context.preferences.server)

    def copy() -> None:
        QGuiApplication.clipboard().setText(server.state.url)

    def stop() -> None:
        server.stop(*filter(is_unfinished, server.requests))

    def is_on() -> str:
        return "" if server.is_on else tr("The server is off")

    def answers() -> str:
        return "" if server.unfinished else tr("No request is running")

    return [
        Action("serve", tr("Switch the server on or off"), section, switch),
        Action("copy-address", tr("Copy the server's address"), section, copy, enabled=is_on),
        Action("stop-requests", tr("Stop all requests of the server"), section, stop, enabled=answers),
    ]
