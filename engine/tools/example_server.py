"""The server of the example tools, over standard streams: ``python -m engine.tools.example_server``."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Any

import anyio
import jsonschema
import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

from engine.errors import SafelightError
from engine.tools.example_tools import ERROR, TOOLS, ExampleTool

CallContext = ServerRequestContext[Any, Any]


def call(name: str, arguments: dict[str, Any]) -> str:
    """Calls a tool.

    Raises:
        SafelightError: there is none, the arguments do not fit, or it failed.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise SafelightError(f"no tool called {name[:40]}")
    try:
        jsonschema.validate(arguments, tool.parameters)  # type: ignore[no-untyped-call]
    except jsonschema.ValidationError as error:
        raise SafelightError(error.message) from None
    return tool.run(**arguments)


async def serve() -> None:
    """Serves until the client closes its end."""

    async def list_tools(_context: CallContext, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def call_tool(_context: CallContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            text, is_error = call(params.name, params.arguments or {}), False
        except SafelightError as error:
            text, is_error = f"{ERROR}{error}", True
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    server: Server[Any] = Server(
        "safelight-examples", version=version("safelight"), on_list_tools=list_tools, on_call_tool=call_tool
    )
    server.middleware.clear()  # it is for telemetry
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _described(tool: ExampleTool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=dict(tool.parameters), annotations=hints
    )


def main() -> None:
    logging.disable()  # requests are quoted in lines of the library
    anyio.run(serve)


if __name__ == "__main__":
    main()
