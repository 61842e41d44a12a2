"""The tools as a server of the protocol's library, whichever stream carries its messages."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Any, TypeAlias

from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from starlette.requests import Request

from engine.server.errors import ApiError
from engine.server.mcp.calls import LEFT, Report, ServedCall
from engine.server.mcp.tools import INSTRUCTIONS, TOOLS, ServedTool, ServedTools
from engine.server.runs import client_of

STDIO = "standard streams"  # the client of a session without an address
CallContext: TypeAlias = ServerRequestContext[Any, Any]


def build_server(tools: ServedTools) -> Server[Any]:
    """Builds a server of the tools."""
    for name in ("mcp.server", "mcp.shared"):  # log lines of libraries may quote a request
        logging.getLogger(name).setLevel(logging.CRITICAL)

    async def list_tools(_context: CallContext, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS])

    async def call_tool(context: CallContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            reply = await tools.call(params.name, params.arguments or {}, _call(tools, context))
        except ApiError as error:
            return types.CallToolResult(content=[_text(error.message)], is_error=True)
        return types.CallToolResult(content=[_text(text) for text in reply.texts], structured_content=reply.data)

    server: Server[Any] = Server(
        "safelight",
        version=version("safelight"),
        title="Safelight",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.clear()  # it is for telemetry
    return server


def _call(tools: ServedTools, context: CallContext) -> ServedCall:
    request, report = context.request, None
    if context.meta is not None and context.meta.get("progress_token") is not None:
        report = _report_to(context)
    if not isinstance(request, Request):
        return ServedCall(tools.context, STDIO, report=report)
    return ServedCall(tools.context, client_of(request.scope), request.scope["state"].get(LEFT), report)


def _report_to(context: CallContext) -> Report:
    async def report(steps: int, said: str) -> None:
        await context.session.report_progress(float(steps), message=said)

    return report


def _described(tool: ServedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            title=tool.title, read_only_hint=True, destructive_hint=False, open_world_hint=False
        ),
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
