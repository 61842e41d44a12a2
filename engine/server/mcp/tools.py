"""The tools: their names, the words about them, and how they are called. Knows nothing of the protocol's library."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import quoted
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.mcp.arguments import (
    DecideArguments,
    GenerateArguments,
    InfillArguments,
    InspectArguments,
    SudokuArguments,
    read_arguments,
    schema_of,
)
from engine.server.mcp.calls import ServedCall, ToolReply
from engine.server.mcp.deciding import decide
from engine.server.mcp.inspecting import inspect_run
from engine.server.mcp.puzzles import sudoku
from engine.server.mcp.writing import generate, infill
from engine.server.strict import Strict

LOOK_SECONDS = 0.1  # between two looks whether the model is loaded
INSTRUCTIONS = (
    "Safelight runs a language model on this computer. It is a diffusion model: it writes a block of text at once, as "
    "a draft that becomes surer step by step. Nothing is sent anywhere, and nothing on the computer is changed. "
    "inspect_run shows how an answer of another tool came about."
)
log = logging.getLogger("safelight.server")


@dataclass(frozen=True)
class ServedTool:
    """A tool; ``title`` and ``description`` are for those who have never seen Safelight."""

    name: str
    title: str
    description: str
    arguments: type[Strict]
    run: Callable[[ServedCall, Any], Awaitable[ToolReply]]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return schema_of(self.arguments)


TOOLS = (
    ServedTool(
        "generate",
        "Write with the local model",
        "Lets a language model on this computer answer a prompt, and returns its text. With a JSON schema the answer "
        "is JSON that fits it. The model has no memory of earlier calls.",
        GenerateArguments,
        generate,
    ),
    ServedTool(
        "decide",
        "Decide between answers",
        "Lets a language model on this computer answer a question by yes or no, by one of several options, or by a "
        "level on a scale. Returns the answer with the probability of each option, read from the model itself.",
        DecideArguments,
        decide,
    ),
    ServedTool(
        "infill",
        "Fill a gap in a text",
        "Lets a language model on this computer write what stands between two texts, such as missing words or lines "
        "of code. Returns the text of the gap alone.",
        InfillArguments,
        infill,
    ),
    ServedTool(
        "sudoku",
        "Solve a Sudoku",
        "Lets a language model on this computer solve a Sudoku. Returns its grid as 81 digits, and whether that grid "
        "is a valid solution. Works best with the model safelight-sudoku; others are mostly wrong.",
        SudokuArguments,
        sudoku,
    ),
    ServedTool(
        "inspect_run",
        "See how an answer came about",
        "Shows what happened in a run of another tool, step by step: how many tokens were accepted, replaced by noise "
        "again or taken back, and the mean entropy in nats. With a step it shows the draft of the text at that step, "
        "and its most doubtful tokens.",
        InspectArguments,
        inspect_run,
    ),
)


class ServedTools:
    """The tools over one server's model.

    Args:
        is_expected: True while a model is being loaded, for which calls wait.
        problem: why no model could be loaded, in a sentence; empty if one could, or none was to be.
    """

    def __init__(
        self,
        context: ServerContext,
        is_expected: Callable[[], bool] | None = None,
        problem: Callable[[], str] = lambda: "",
    ) -> None:
        self.context = context
        self._is_expected = is_expected or (lambda: context.scheduler.loading is not None)
        self._problem = problem

    async def call(self, name: str, arguments: dict[str, Any], call: ServedCall) -> ToolReply:
        """Calls a tool.

        Raises:
            ApiError: there is no such tool, the arguments do not fit, or it failed.
        """
        tool = next((one for one in TOOLS if one.name == name), None)
        if tool is None:
            raise ApiError(404, f"There is no tool {quoted(name)}; use {', '.join(one.name for one in TOOLS)}.")
        asked = read_arguments(tool.arguments, arguments)
        try:
            await self._loaded(call)
            return await tool.run(call, asked)
        except ApiError:
            raise
        except Exception as error:
            place, kind = traceback.extract_tb(error.__traceback__)[-1], type(error).__name__
            log.error("a tool failed: %s in %s:%d", kind, Path(place.filename).name, place.lineno)
            raise ApiError(500, f"Something went wrong in the server ({kind}).") from None

    async def _loaded(self, call: ServedCall) -> None:
        """Waits for the model.

        Raises:
            ApiError: it could not be loaded.
        """
        ends = asyncio.get_running_loop().time() + self.context.options.request_seconds
        if self._is_expected() and call.report is not None:
            await call.report(0, "The model is being loaded.")
        while self._is_expected() and asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(LOOK_SECONDS)
        if problem := self._problem():
            raise ApiError(503, f"No model is loaded: {problem.rstrip('.')}.")
