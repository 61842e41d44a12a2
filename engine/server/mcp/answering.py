"""The tools ``generate``, ``infill``, ``decide`` and ``sudoku``.

No solver changes what the model writes in a puzzle; the rules of the game judge it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from engine.catalog import ADAPTERS, KNOWN, SUDOKU
from engine.server.chat import plan_chat
from engine.server.completions import plan_gap
from engine.server.context import ServerContext, adapters_of
from engine.server.decisions import DecisionPlan, DecisionsRequest, decided, plan_decision, read_decisions
from engine.server.errors import ApiError, unsupported
from engine.server.mcp.calls import (
    PATH,
    DecideArguments,
    GenerateArguments,
    InfillArguments,
    ServedCall,
    SudokuArguments,
    ToolReply,
    written,
)
from engine.server.planning import RunPlan
from engine.server.schemas import ChatRequest, FimRequest
from engine.service import LoadedModel
from engine.tasks import sudoku as rules
from engine.tasks.decisions.answers import TypedAnswer

DIGITS = 4  # of a probability
DOUBTED_MASS = 0.5  # of all options together, under which an answer comes with a caution
MAX_TOKENS = 256  # of the answer of a model that was not made for puzzles


async def generate(call: ServedCall, asked: GenerateArguments) -> ToolReply:
    plan = await asyncio.to_thread(_plan_answer, call.context, asked)
    found = await written(call, plan)
    facts = {"text": found.text, "seed": plan.request.seed, **found.facts}
    return ToolReply(found.text, facts, found.note, _limit(call.context.scheduler.model or plan.model))


async def infill(call: ServedCall, asked: InfillArguments) -> ToolReply:
    plan = await asyncio.to_thread(_plan_gap, call.context, asked)
    found = await written(call, plan)
    return ToolReply(
        found.text, {"text": found.text, **found.facts}, found.note, _limit(call.context.scheduler.model or plan.model)
    )


def _limit(model: LoadedModel) -> str:
    """Returns what a very small model was made for; empty if it takes any prompt."""
    purpose = next((one.purpose for one in KNOWN if one.id == model.name), "")
    if model.traits.taught == "anything" or not purpose:
        return ""
    return f"{model.name} is a very small model, of no use for anything else than this: {purpose}."


def _plan_answer(context: ServerContext, asked: GenerateArguments) -> RunPlan:
    if asked.system and not context.model.reads_system:
        raise unsupported(f"The model {context.model.name} reads no instructions; put them into the prompt.", "system")
    return plan_message(
        context,
        asked.prompt,
        asked.system or "",
        max_tokens=asked.max_tokens,
        seed=asked.seed,
        response_format=None
        if asked.schema_ is None
        else {"type": "json_schema", "json_schema": {"name": "answer", "schema": asked.schema_}},
    )


def plan_message(context: ServerContext, prompt: str, system: str = "", **fields: Any) -> RunPlan:
    """Plans the answer to one message of a person. Slow.

    Args:
        fields: further ones of a chat.

    Raises:
        ApiError: it cannot be run as requested.
    """
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    return plan_chat(context, ChatRequest.model_validate({"messages": messages, **fields}))


def _plan_gap(context: ServerContext, asked: InfillArguments) -> RunPlan:
    longest = asked.max_tokens if asked.length is None else max(asked.length, asked.max_tokens or 0)
    body = FimRequest.model_validate({"prompt": asked.prefix, "suffix": asked.suffix, "max_tokens": longest})
    [plan] = plan_gap(context, body, (), asked.length)
    return plan


async def decide(call: ServedCall, asked: DecideArguments) -> ToolReply:
    plan = await asyncio.to_thread(_plan_decision, call.context, asked)
    [answer], _, run_id = await decided(call.context, plan, PATH, call.client, call.receive)
    data = _decision_data(asked, answer) | {"run_id": run_id}
    shares = ", ".join(f"{name} {share:.1%}" for name, share in data["probabilities"].items())
    text = f"{data['answer']} ({shares})"
    if asked.kind == "score":
        text = f"{text}; mean level {data['score']:.2f}, from 0"
    return ToolReply(text, data, f"run_id {run_id}", _doubt(answer))


def _doubt(answer: TypedAnswer) -> str:
    if answer.label_mass >= DOUBTED_MASS:
        return ""
    share = f"{answer.label_mass:.1%}"
    return f"Do not rely on this answer: the model gave only {share} of its probability to any of these options."


def _plan_decision(context: ServerContext, asked: DecideArguments) -> DecisionPlan:
    question: dict[str, Any] = {"instructions": asked.question}
    match asked.kind:
        case "yes_no":
            question |= {"type": "predicate"}
        case "choice":
            question |= {"type": "choice", "choices": [{"value": option} for option in asked.options or ()]}
        case "score":
            question |= {"type": "score", "levels": [{"label": option} for option in asked.options or ()]}
    state = asked.text if asked.text and asked.text.strip() else asked.question
    body = DecisionsRequest.model_validate({"input": state, "questions": [question]})
    return plan_decision(context, body, read_decisions(body))


def _decision_data(asked: DecideArguments, answer: TypedAnswer) -> dict[str, Any]:
    """Returns an answer as data; ``label_mass`` is the probability that the model gave to all options together."""
    names = ["yes", "no"] if asked.kind == "yes_no" else asked.options or []
    shares = [round(share, DIGITS) for share in answer.probabilities]
    found: dict[str, Any] = {
        "answer": names[answer.best],
        "probabilities": dict(zip(names, shares, strict=True)),
        "label_mass": round(answer.label_mass, DIGITS),
    }
    return found | ({"score": round(answer.score, DIGITS)} if asked.kind == "score" else {})


async def sudoku(call: ServedCall, asked: SudokuArguments) -> ToolReply:
    try:
        puzzle = rules.parse(asked.puzzle)
    except rules.PuzzleError as error:
        raise ApiError(400, f"puzzle: {error}.", param="puzzle") from None
    plan = await asyncio.to_thread(_plan_puzzle, call.context, puzzle)
    found = await written(call, plan)
    grid = rules.read_answer(found.text)
    verdict = rules.judge(puzzle, grid)
    said = "This solves the puzzle." if verdict.valid else _fault(grid, verdict)
    caution = ""
    if not verdict.valid and plan.request.adapter is None and not _is_made_for_it(plan.model):
        caution = f"The model {plan.model.name} was not made for Sudokus; {SUDOKU} was."
    data = {"grid": grid, "valid": verdict.valid, "givens_kept": verdict.givens_kept, **found.facts}
    return ToolReply(f"{rules.rows(grid)}\n{said}", data, found.note, caution)


def _plan_puzzle(context: ServerContext, puzzle: str) -> RunPlan:
    model = context.model
    fields: dict[str, Any] = {"seed": 0}
    known = [one.id for one in ADAPTERS if one.id in adapters_of(model) and one.traits.prompt_format == "sudoku"]
    if not _is_made_for_it(model) and known:
        fields["model"] = f"{model.name}:{known[0]}"
    elif not _is_made_for_it(model) and model.traits.taught == "anything" and not model.parts:
        fields["max_tokens"] = MAX_TOKENS
    return plan_message(context, rules.to_prompt(puzzle), **fields)


def _is_made_for_it(model: LoadedModel) -> bool:
    return model.traits.prompt_format == "sudoku"


def _fault(grid: str, verdict: rules.Judgement) -> str:
    if "." in grid:
        return "This does not solve the puzzle: it is not complete."
    if not verdict.givens_kept:
        return "This does not solve the puzzle: it changes digits that were given."
    return "This does not solve the puzzle: equal digits share a row, a column or a box."
