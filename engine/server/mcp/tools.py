"""The tools as a server of the protocol's library, whichever stream carries its messages."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from starlette.requests import Request

from engine.errors import quoted
from engine.server.bodies import checked
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.mcp.answering import decide, generate, infill, sudoku
from engine.server.mcp.calls import (
    LEFT,
    DecideArguments,
    GenerateArguments,
    InfillArguments,
    InspectArguments,
    Report,
    ServedCall,
    SudokuArguments,
    ToolReply,
)
from engine.server.mcp.inspecting import inspect_run
from engine.server.runs import client_of
from engine.server.strict import Strict

STDIO = "standard streams"  # the client of a session without an address
LOOK_SECONDS = 0.1  # between two looks whether the model is loaded
INSTRUCTIONS = (
    "Safelight runs a language model on this computer. It is a diffusion model: it writes a block of text at once, as "
    "a draft that becomes surer step by step. Nothing is sent anywhere, and nothing on the computer is changed. "
    "inspect_run shows how an answer of another tool came about."
)
CallContext: TypeAlias = ServerRequestContext[Any, Any]
Problem: TypeAlias = Callable[[], str | None]
"""Returns None while a model is being loaded, a sentence if that failed, else an empty text."""
log = logging.getLogger("safelight.server")

RUNS: dict[str, tuple[type[Strict], Callable[[ServedCall, Any], Awaitable[ToolReply]]]] = {
    "generate": (GenerateArguments, generate),
    "decide": (DecideArguments, decide),
    "infill": (InfillArguments, infill),
    "sudoku": (SudokuArguments, sudoku),
    "inspect_run": (InspectArguments, inspect_run),
}


def _tool(name: str, title: str, description: str) -> types.Tool:
    """Describes a tool to those who have never seen Safelight."""
    hints = types.ToolAnnotations(title=title, read_only_hint=True, destructive_hint=False, open_world_hint=False)
    schema = RUNS[name][0].model_json_schema()
    return types.Tool(name=name, title=title, description=description, input_schema=schema, annotations=hints)


TOOLS = [
    _tool(
        "generate",
        "Write with the local model",
        "Lets a language model on this computer answer a prompt, and returns its text. With a JSON schema the answer "
        "is JSON that fits it. The model has no memory of earlier calls.",
    ),
    _tool(
        "decide",
        "Decide between answers",
        "Lets a language model on this computer answer a question by yes or no, by one of several options, or by a "
        "level on a scale. Returns the answer with the probability of each option, read from the model itself.",
    ),
    _tool(
        "infill",
        "Fill a gap in a text",
        "Lets a language model on this computer write what stands between two texts, such as missing words or lines "
        "of code. Returns the text of the gap alone.",
    ),
    _tool(
        "sudoku",
        "Solve a Sudoku",
        "Lets a language model on this computer solve a Sudoku. Returns its grid as 81 digits, and whether that grid "
        "is a valid solution. Works best with the model safelight-sudoku; others are mostly wrong.",
    ),
    _tool(
        "inspect_run",
        "See how an answer came about",
        "Shows what happened in a run of another tool, step by step: how many tokens were accepted, replaced by noise "
        "again or taken back, and the mean entropy in nats. With a step it shows the draft of the text at that step, "
        "and its most doubtful tokens.",
    ),
]


def build_server(context: ServerContext, problem: Problem) -> Server[Any]:
    """Builds a server of the tools; its calls wait while a model is being loaded."""
    for name in ("mcp.server", "mcp.shared"):  # log lines of libraries may quote a request
        logging.getLogger(name).setLevel(logging.CRITICAL)

    async def list_tools(_context: CallContext, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def call_tool(asked: CallContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            reply = await _called(_call(context, asked), problem, params.name, params.arguments or {})
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


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _call(context: ServerContext, asked: CallContext) -> ServedCall:
    async def report(steps: int, said: str) -> None:
        await asked.session.report_progress(float(steps), message=said)

    wanted: Report | None = report if (asked.meta or {}).get("progress_token") is not None else None
    request = asked.request
    if not isinstance(request, Request):
        return ServedCall(context, STDIO, report=wanted)
    return ServedCall(context, client_of(request.scope), request.scope["state"].get(LEFT), wanted)


async def _called(call: ServedCall, problem: Problem, name: str, arguments: dict[str, Any]) -> ToolReply:
    """Calls a tool.

    Raises:
        ApiError: there is no such tool, the arguments do not fit, or it failed.
    """
    if name not in RUNS:
        raise ApiError(404, f"There is no tool {quoted(name)}; use {', '.join(RUNS)}.")
    kind, run = RUNS[name]
    asked = checked(kind, arguments)
    try:
        await _loaded(call, problem)
        return await run(call, asked)
    except ApiError:
        raise
    except Exception as error:
        place, what = traceback.extract_tb(error.__traceback__)[-1], type(error).__name__
        log.error("a tool failed: %s in %s:%d", what, Path(place.filename).name, place.lineno)
        raise ApiError(500, f"Something went wrong in the server ({what}).") from None


async def _loaded(call: ServedCall, problem: Problem) -> None:
    """Waits for the model.

    Raises:
        ApiError: it could not be loaded.
    """
    ends = asyncio.get_running_loop().time() + call.context.options.request_seconds
    if problem() is None and call.report is not None:
        await call.report(0, "The model is being loaded.")
    while (said := problem()) is None and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(LOOK_SECONDS)
    if said:
        raise ApiError(503, f"No model is loaded: {said.rstrip('.')}.")
