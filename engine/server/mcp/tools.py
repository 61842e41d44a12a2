"""The tools as a server of the protocol's library, whichever stream carries its messages, and what most of them do.

No solver changes what the model writes in a puzzle; the rules of the game judge it.
"""

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

from engine.catalog import ADAPTERS, KNOWN, SUDOKU
from engine.errors import quoted
from engine.server.bodies import checked
from engine.server.chat import plan_chat
from engine.server.completions import plan_gap
from engine.server.context import ServerContext, adapters_of
from engine.server.decisions import DecisionPlan, DecisionsRequest, decided, plan_decision, read_decisions
from engine.server.errors import ApiError, unsupported
from engine.server.mcp.calls import (
    LEFT,
    PATH,
    DecideArguments,
    GenerateArguments,
    InfillArguments,
    InspectArguments,
    Report,
    ServedCall,
    SudokuArguments,
    ToolReply,
    written,
)
from engine.server.mcp.inspecting import inspect_run
from engine.server.planning import RunPlan
from engine.server.runs import client_of
from engine.server.schemas import ChatRequest, FimRequest
from engine.server.strict import Strict
from engine.service import LoadedModel
from engine.tasks import sudoku as rules
from engine.tasks.decisions.answers import TypedAnswer

DIGITS = 4  # of a probability
DOUBTED_MASS = 0.5  # of all options together, under which an answer comes with a caution
MAX_ANSWER_TOKENS = 256  # of the answer of a model that was not made for puzzles


async def generate(call: ServedCall, asked: GenerateArguments) -> ToolReply:
    plan = await asyncio.to_thread(_plan_answer, call.context, asked)
    reply = await written(call, plan)
    facts = {"text": reply.text, "seed": plan.request.seed, **reply.facts}
    return ToolReply(reply.text, facts, reply.note, _limit(call.context.scheduler.model or plan.model))


async def infill(call: ServedCall, asked: InfillArguments) -> ToolReply:
    plan = await asyncio.to_thread(_plan_gap, call.context, asked)
    reply = await written(call, plan)
    return ToolReply(
        reply.text, {"text": reply.text, **reply.facts}, reply.note, _limit(call.context.scheduler.model or plan.model)
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
    data: dict[str, Any] = {
        "answer": names[answer.best],
        "probabilities": dict(zip(names, shares, strict=True)),
        "label_mass": round(answer.label_mass, DIGITS),
    }
    return data | ({"score": round(answer.score, DIGITS)} if asked.kind == "score" else {})


async def sudoku(call: ServedCall, asked: SudokuArguments) -> ToolReply:
    try:
        puzzle = rules.parse(asked.puzzle)
    except rules.PuzzleError as error:
        raise ApiError(400, f"puzzle: {error}.", param="puzzle") from None
    plan = await asyncio.to_thread(_plan_puzzle, call.context, puzzle)
    reply = await written(call, plan)
    grid = rules.read_answer(reply.text)
    verdict = rules.judge(puzzle, grid)
    judgement = "This solves the puzzle." if verdict.valid else _fault(grid, verdict)
    caution = ""
    if not verdict.valid and plan.request.adapter is None and not _is_made_for_it(plan.model):
        caution = f"The model {plan.model.name} was not made for Sudokus; {SUDOKU} was."
    data = {"grid": grid, "valid": verdict.valid, "givens_kept": verdict.givens_kept, **reply.facts}
    return ToolReply(f"{rules.rows(grid)}\n{judgement}", data, reply.note, caution)


def _plan_puzzle(context: ServerContext, puzzle: str) -> RunPlan:
    model = context.model
    fields: dict[str, Any] = {"seed": 0}
    known = [one.id for one in ADAPTERS if one.id in adapters_of(model) and one.traits.prompt_format == "sudoku"]
    if not _is_made_for_it(model) and known:
        fields["model"] = f"{model.name}:{known[0]}"
    elif not _is_made_for_it(model) and model.traits.taught == "anything" and not model.parts:
        fields["max_tokens"] = MAX_ANSWER_TOKENS
    return plan_message(context, rules.to_prompt(puzzle), **fields)


def _is_made_for_it(model: LoadedModel) -> bool:
    return model.traits.prompt_format == "sudoku"


def _fault(grid: str, verdict: rules.Judgement) -> str:
    if "." in grid:
        return "This does not solve the puzzle: it is not complete."
    if not verdict.givens_kept:
        return "This does not solve the puzzle: it changes digits that were given."
    return "This does not solve the puzzle: equal digits share a row, a column or a box."


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

    wanted_report: Report | None = report if (asked.meta or {}).get("progress_token") is not None else None
    request = asked.request
    if not isinstance(request, Request):
        return ServedCall(context, STDIO, report=wanted_report)
    return ServedCall(context, client_of(request.scope), request.scope["state"].get(LEFT), wanted_report)


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
    while (reason := problem()) is None and asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(LOOK_SECONDS)
    if reason:
        raise ApiError(503, f"No model is loaded: {reason.rstrip('.')}.")
