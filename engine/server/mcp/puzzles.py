"""The tool ``sudoku``. No solver changes what the model writes; the rules of the game judge it."""

from __future__ import annotations

import asyncio
from typing import Any

from engine.catalog import ADAPTERS, SUDOKU
from engine.server.context import ServerContext, adapters_of
from engine.server.errors import ApiError
from engine.server.mcp.arguments import SudokuArguments
from engine.server.mcp.calls import ServedCall, ToolReply, written
from engine.server.mcp.writing import plan_message
from engine.server.planning import RunPlan
from engine.service import LoadedModel
from engine.tasks import sudoku as rules

MOST_TOKENS = 256  # of the answer of a model that was not made for puzzles


async def sudoku(call: ServedCall, asked: SudokuArguments) -> ToolReply:
    """Solves a puzzle."""
    try:
        puzzle = rules.parse(asked.puzzle)
    except rules.PuzzleError as error:
        raise ApiError(400, f"puzzle: {error}.", param="puzzle") from None
    plan = await asyncio.to_thread(_plan, call.context, puzzle)
    found = await written(call, plan)
    grid = rules.read_answer(found.text)
    verdict = rules.judge(puzzle, grid)
    said = "This solves the puzzle." if verdict.valid else _fault(grid, verdict)
    caution = ""
    if not verdict.valid and plan.request.adapter is None and not _is_made_for_it(plan.model):
        caution = f"The model {plan.model.name} was not made for Sudokus; {SUDOKU} was."
    data = {"grid": grid, "valid": verdict.valid, "givens_kept": verdict.givens_kept, **found.facts}
    return ToolReply(f"{rules.rows(grid)}\n{said}", data, found.note, caution)


def _plan(context: ServerContext, puzzle: str) -> RunPlan:
    model = context.model
    fields: dict[str, Any] = {"seed": 0}
    known = [one.id for one in ADAPTERS if one.id in adapters_of(model) and one.traits.prompt_format == "sudoku"]
    if not _is_made_for_it(model) and known:
        fields["model"] = f"{model.name}:{known[0]}"
    elif not _is_made_for_it(model) and model.traits.taught == "anything":
        fields["max_tokens"] = MOST_TOKENS
    return plan_message(context, rules.to_prompt(puzzle), **fields)


def _is_made_for_it(model: LoadedModel) -> bool:
    return model.traits.prompt_format == "sudoku"


def _fault(grid: str, verdict: rules.Judgement) -> str:
    if "." in grid:
        return "This does not solve the puzzle: it is not complete."
    if not verdict.givens_kept:
        return "This does not solve the puzzle: it changes digits that were given."
    return "This does not solve the puzzle: equal digits share a row, a column or a box."
