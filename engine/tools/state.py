"""The state of a tool server, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.tools.declared import ToolServer
from engine.tools.tool import Tool

Status = Literal["off", "starting", "ready", "failed"]


@dataclass(frozen=True, eq=False)
class ToolServerState:
    """The state of a server, at one time.

    Args:
        problem: what went wrong, to follow the server's name; empty while all is well.
        log: the last lines that it wrote to its standard error.
    """

    server: ToolServer
    status: Status = "off"
    tools: tuple[Tool, ...] = ()
    problem: str = ""
    log: str = ""
