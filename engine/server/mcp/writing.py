"""The tools ``generate`` and ``infill``, which write text."""

from __future__ import annotations

import asyncio
from typing import Any

from engine.catalog import KNOWN
from engine.server.chat import plan_chat
from engine.server.completions import plan_gap
from engine.server.context import ServerContext
from engine.server.errors import unsupported
from engine.server.mcp.arguments import GenerateArguments, InfillArguments
from engine.server.mcp.calls import ServedCall, ToolReply, written
from engine.server.planning import RunPlan
from engine.server.schemas import ChatRequest, FimRequest
from engine.service import LoadedModel


async def generate(call: ServedCall, asked: GenerateArguments) -> ToolReply:
    """Answers a prompt."""
    plan = await asyncio.to_thread(_plan_answer, call.context, asked)
    found = await written(call, plan)
    facts = {"text": found.text, "seed": plan.request.seed, **found.facts}
    return ToolReply(found.text, facts, found.note, _limit(plan.model))


async def infill(call: ServedCall, asked: InfillArguments) -> ToolReply:
    """Writes the text of a gap."""
    plan = await asyncio.to_thread(_plan_gap, call.context, asked)
    found = await written(call, plan)
    return ToolReply(found.text, {"text": found.text, **found.facts}, found.note, _limit(plan.model))


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
