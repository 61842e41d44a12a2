"""The tool ``decide``: a typed answer with its probabilities."""

from __future__ import annotations

import asyncio
from typing import Any

from engine.server.context import ServerContext
from engine.server.decisions import DecisionAnswering, DecisionPlan, plan_decision
from engine.server.decisions_request import DecisionsRequest, read_decisions
from engine.server.mcp.arguments import DecideArguments
from engine.server.mcp.calls import PATH, ServedCall, ToolReply
from engine.tasks.decisions.answers import TypedAnswer

DIGITS = 4  # of a probability
DOUBTED_MASS = 0.5  # of all options together, under which an answer comes with a caution


async def decide(call: ServedCall, asked: DecideArguments) -> ToolReply:
    """Answers a question with given answers."""
    plan = await asyncio.to_thread(_plan, call.context, asked)
    answering = DecisionAnswering(call.context, plan)
    async with answering.run(PATH, call.client) as run:
        if call.receive is not None:
            run.watch(call.receive)
        decided = await answering.decided(run)
        run_id = run.id
    [answer] = decided.answers
    data = _data(asked, answer) | {"run_id": run_id}
    shares = ", ".join(f"{name} {share:.1%}" for name, share in data["probabilities"].items())
    text = f"{data['answer']} ({shares})"
    if asked.kind == "score":
        text = f"{text}; mean level {data['score']:.2f}, from 0"
    return ToolReply(text, data, f"run_id {run_id}", _caution(answer))


def _caution(answer: TypedAnswer) -> str:
    if answer.label_mass >= DOUBTED_MASS:
        return ""
    share = f"{answer.label_mass:.1%}"
    return f"Do not rely on this answer: the model gave only {share} of its probability to any of these options."


def _plan(context: ServerContext, asked: DecideArguments) -> DecisionPlan:
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


def _data(asked: DecideArguments, answer: TypedAnswer) -> dict[str, Any]:
    """Returns an answer as data; ``label_mass`` is the probability that the model gave to all options together."""
    names = ["yes", "no"] if asked.kind == "yes_no" else asked.options or []
    shares = [round(share, DIGITS) for share in answer.probabilities]
    found: dict[str, Any] = {
        "answer": names[answer.best],
        "probabilities": dict(zip(names, shares, strict=True)),
        "label_mass": round(answer.label_mass, DIGITS),
    }
    return found | ({"score": round(answer.score, DIGITS)} if asked.kind == "score" else {})
