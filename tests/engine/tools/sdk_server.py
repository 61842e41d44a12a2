"""A tool server made with the official SDK; ``python sdk_server.py [PORT]`` serves by pipes, or by HTTP on a port."""

from __future__ import annotations

import asyncio
import os
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("sums")


@server.tool(annotations=ToolAnnotations(read_only_hint=True), title="Add two numbers")
def add(first: int, second: int) -> int:
    """Add two whole numbers."""
    return first + second


@server.tool()
async def wait(seconds: float) -> str:
    """Wait for some seconds."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("there is no such file")


@server.tool()
def end() -> str:
    """End the program."""
    print("it was asked to end", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def environment() -> str:
    """Return a variable of the environment."""
    return os.environ.get("SECRET", "") + os.environ.get("OUTER", "")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
