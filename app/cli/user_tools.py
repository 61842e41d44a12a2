"""The user's tools for clients of ``safelight serve --mcp``: those of the servers that the window has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.cli import terminal
from app.cli.tune_runs import user_preferences
from app.system.folders import folders
from app.tools.store import ToolStore
from engine import SafelightError
from engine.tools.host import ToolHost

if TYPE_CHECKING:
    from engine.server import UserTools

POLL_SECONDS = 0.2  # between checks of the flag: Windows cannot interrupt a wait without a timeout


@contextmanager
def user_tools() -> Iterator[UserTools]:
    """Runs the user's servers that are on; offline, those of this machine.

    Raises:
        SafelightError: there is none.
    """
    from engine.server import UserTools  # takes a fifth of a second to import

    preferences = user_preferences()
    store = ToolStore(folders(preferences.data_folder).data)
    servers = [one for one in store.servers if one.is_on and not (preferences.offline and one.is_remote)]
    if not servers:
        said = "no tool server is switched on; add one in the window, in the settings under Tools"
        raise SafelightError(store.problem.rstrip(".") or said)
    if store.problem:
        terminal.say(store.problem)
    host = ToolHost()
    host.declare(servers)
    try:
        yield UserTools(host, store.leave.is_offered)
    finally:
        host.close()


def say_tools(tools: UserTools, stop: threading.Event) -> None:
    """Waits for all servers, and says which tools they have; returns early if it is stopped."""
    for name in tools.servers:
        reached = tools.reach(name)
        while not wait((reached,), POLL_SECONDS).done:
            if stop.is_set():
                return
        state = reached.result()
        names = ", ".join(tool.name for tool in tools.offered(state)) or "none is offered"
        said = f"tools of {name}: {names}" if state.status == "ready" else f"{name} {state.problem or 'has ended'}"
        terminal.say(terminal.printable(said))
