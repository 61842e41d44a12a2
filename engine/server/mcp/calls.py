"""A call of a tool, what it answers, and how a run of it is awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator
from starlette.types import Receive

from engine.config import MAX_POSITIONS
from engine.events import StepFinished
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.planning import RunPlan
from engine.server.schemas import GAP_TOKENS, MAX_EXACT
from engine.server.serving import Answering
from engine.server.strict import Strict
from engine.text.output_parts import ContentPart, OutputPart, joined_text
from engine.trace.recording import Draft

MAX_STEP = 2**31 - 1
Length = Annotated[int, Field(ge=1, le=MAX_POSITIONS)]
Seed = Annotated[int, Field(ge=0, le=MAX_EXACT)]


class GenerateArguments(Strict):
    """A prompt, and what is asked of the answer to it."""

    prompt: Annotated[str, Field(min_length=1, description="The request, as one message of a person.")]
    system: Annotated[str | None, Field(description="Instructions before the prompt.")] = None
    max_tokens: Annotated[Length | None, Field(description="The longest answer, in tokens.")] = None
    seed: Annotated[Seed | None, Field(description="The same seed repeats an answer; left out, a new one.")] = None
    schema_: Annotated[
        dict[str, Any] | None,
        Field(alias="schema", description="A JSON schema. The answer is then JSON that fits it, whatever the prompt."),
    ] = None


class DecideArguments(Strict):
    """A question with given answers."""

    question: Annotated[str, Field(min_length=1, description="The question, or for yes_no a statement.")]
    kind: Annotated[
        Literal["yes_no", "choice", "score"],
        Field(description="yes_no: is it so? choice: which option applies? score: which level, on a scale?"),
    ]
    options: Annotated[
        list[str] | None,
        Field(description="For choice: 2 to 26 options. For score: the levels, the lowest first. Not for yes_no."),
    ] = None
    text: Annotated[str | None, Field(description="What the question is about, if it is not in the question.")] = None

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.kind == "yes_no" and self.options:
            raise ApiError(400, "options: yes_no has none; leave them out, or change the kind.", param="options")
        if self.kind != "yes_no" and not self.options:
            raise ApiError(400, f"options: a {self.kind} needs them; list them.", param="options")
        return self


class InfillArguments(Strict):
    """A text with a gap."""

    prefix: Annotated[str, Field(description="The text before the gap.")]
    suffix: Annotated[str, Field(description="The text behind the gap.")]
    max_tokens: Annotated[Length | None, Field(description=f"The longest text, in tokens; left out, {GAP_TOKENS}.")] = (
        None
    )
    length: Annotated[Length | None, Field(description="Exactly so many tokens; left out, the model's usual.")] = None


class SudokuArguments(Strict):
    """A puzzle."""

    puzzle: Annotated[
        str,
        Field(max_length=1_000, description="81 cells, row by row: the digits 1 to 9, and 0 or . for an empty cell."),
    ]


class InspectArguments(Strict):
    """A run, and perhaps one of its steps."""

    run_id: Annotated[str, Field(min_length=1, max_length=200, description="run_id from the result of another tool.")]
    step: Annotated[
        int | None,
        Field(ge=1, le=MAX_STEP, description="Shows the draft after this step, counted from 1 over the whole run."),
    ] = None


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
            _, event, new_parts = news
            parts += new_parts
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
