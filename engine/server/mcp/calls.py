"""A call of a tool, what it answers, and how a run of it is awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.types import Receive

from engine.events import StepFinished
from engine.server.context import ServerContext
from engine.server.planning import RunPlan
from engine.server.serving import Answering
from engine.text.output_parts import ContentPart, OutputPart, joined_text
from engine.trace.recording import Draft

PATH = "/mcp"
LEFT = "mcp_left"  # of an HTTP request's state: the ``receive`` of its ``ServedCall``
MAX_SHOWN = 200  # characters of a draft in a report of progress
Report: TypeAlias = Callable[[int, str], Awaitable[None]]
"""Reports progress: the steps so far, and a sentence."""


@dataclass(frozen=True, eq=False)
class ServedCall:
    """A call, without its arguments.

    Args:
        client: whose turn it is, among those who wait.
        receive: receives ``http.disconnect`` when the client leaves; None if its connection is the whole session.
        report: takes a report after each step; None if the client wants none.
    """

    context: ServerContext
    client: str
    receive: Receive | None = None
    report: Report | None = None


@dataclass(frozen=True)
class ToolReply:
    """The answer of a tool, twice: some clients show their model the texts, others the data alone.

    Args:
        note: the facts about the run, which are among the data.
        caution: why the answer may be of no use; empty if nothing is known against it.
    """

    text: str
    facts: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    caution: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text, *(said for said in (self.note, self.caution) if said))

    @property
    def data(self) -> dict[str, Any]:
        return self.facts | ({"caution": self.caution} if self.caution else {})


async def written(call: ServedCall, plan: RunPlan) -> ToolReply:
    """Runs a plan to its end. Returns its text, with the facts about the run.

    Raises:
        ApiError: the answer is incomplete.
    """
    answering, parts = Answering(call.context, (plan,)), list[OutputPart]()
    draft, steps = Draft(plan.request.config.eos_token_ids), 0
    async with answering.run(PATH, call.client, call.receive) as run:
        async for news in answering.advance(run, None):
            if news is None:
                continue
            _, event, found = news
            parts += found
            if call.report is None or event is None:
                continue
            draft.fold(event)
            if isinstance(event, StepFinished):
                steps += 1
                await call.report(steps, shown(draft.reply(plan.model.decode).text, MAX_SHOWN))
        [answer] = answering.answers
        text, count, reason = joined_text(parts, ContentPart), len(answer.tokens), answer.finish_reason
        cut = ", cut at the most tokens" if reason == "length" else ""
        note = f"run_id {run.id}: {_count(answer.steps, 'step')}, {_count(count, 'token')}{cut}"
        facts = {"run_id": run.id, "steps": answer.steps, "tokens": count, "finish_reason": reason}
        return ToolReply(text, facts, note)


def shown(text: str, most: int) -> str:
    """Returns a text of at most so many characters, cut in the middle."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[len(text) - most // 2 :]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
