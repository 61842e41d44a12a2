"""The runs that answer a decision request together, and their end as an HTTP response."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from engine.errors import SafelightError
from engine.server.asked import AskedQuestions
from engine.server.context import ServerContext
from engine.server.decisions_request import AskedRequest
from engine.server.errors import UNSUPPORTED, ApiError, elsewhere, other_model, refusing, unsupported
from engine.server.images import SentImages
from engine.server.runs import ServedRun
from engine.service import (
    DecisionReads,
    DecisionUsage,
    LoadedModel,
    RunAdvanced,
    RunRequest,
    RunStarted,
    decision_requests,
    is_remote,
)
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import Decision, Question


@dataclass(frozen=True, eq=False)
class DecisionPlan:
    """The runs of a request, ready to begin; one flag cancels all of them."""

    requests: tuple[RunRequest, ...]
    model: LoadedModel
    name: str  # of the model, as shown in the answer
    temperature: float = 1.0
    has_repeats: bool = False  # the request asked for them
    is_joint: bool = False
    id: str | None = None  # the request's own id


@dataclass(frozen=True)
class ReadCanvas:
    """A canvas that questions were read from: its tokens, and the slot of each question."""

    questions: tuple[Question, ...]
    width: int
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Decided:
    """All answers of a request, in order."""

    answers: tuple[TypedAnswer, ...]
    usage: DecisionUsage
    canvases: tuple[ReadCanvas, ...]


def plan_decision(context: ServerContext, body: AskedRequest, asked: AskedQuestions) -> DecisionPlan:
    """Plans the runs of a request. Slow: it counts tokens, and decodes images.

    Raises:
        ApiError: the model is another, or cannot decide, or the request does not fit it.
    """
    model, adapter = context.pick(body.model)
    if is_remote(model.path_or_id):
        raise elsewhere()
    if not model.capabilities.decisions:
        raise ApiError(501, f"The model {model.name} cannot decide; load another one.", code=UNSUPPORTED)
    if asked.instructions and not model.reads_system:
        raise unsupported(
            f"The model {model.name} reads no system message; write the instructions into the state or the questions.",
            asked.instructions_field,
        )
    images = SentImages(model, context.pictures)
    for place, sent in enumerate(asked.images):
        images.open(sent)
        if len(images.pictures) <= place:
            raise unsupported("An image is there twice; send it once.", sent.where)
    config = images.budget(body.image_tokens, model.defaults)
    with refusing(asked.state_field):
        requests = decision_requests(
            model,
            asked.state,
            asked.questions,
            instructions=asked.instructions,
            is_joint=bool(body.joint),
            repeats=body.repeats or 0,
            adapter=adapter,
            keep=context.options.keeps_traces,
            pictures=images.pictures,
            image_tokens=config.image_tokens,
        )
    cancel = threading.Event()
    return DecisionPlan(
        tuple(dataclasses.replace(request, cancel=cancel) for request in requests),
        model,
        body.model or model.name,
        body.temperature or 1.0,
        bool(body.repeats),
        bool(body.joint) and len(asked.questions) > 1,
        asked.id,
    )


class DecisionResponse:
    """An ASGI application that runs a plan; ``write`` makes the body of its answer."""

    def __init__(
        self,
        context: ServerContext,
        plan: DecisionPlan,
        endpoint: str,
        write: Callable[[DecisionPlan, Decided], dict[str, Any]],
    ) -> None:
        self._context, self._plan, self._endpoint, self._write = context, plan, endpoint, write
        self._reads = {request.run_id: DecisionReads(_decision(request)) for request in plan.requests}
        self._canvases: dict[str, ReadCanvas] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        plan = self._plan
        async with ServedRun(self._context, plan.requests, self._endpoint, plan.name, is_patient=True) as run:
            run.watch(receive)
            async for reply in run.replies():
                if isinstance(reply, RunAdvanced):
                    self._reads[reply.run_id].add(reply)
                elif reply is not None:
                    self._note_start(reply)
            if run.failure is not None:
                raise run.failure
            decided = self._decided()
            run.note_tokens(decided.usage.answer_tokens)
            await JSONResponse(self._write(plan, decided))(scope, receive, send)
        self._count(decided)

    def _note_start(self, reply: RunStarted) -> None:
        header = reply.trace.header
        if header.model.fingerprint != self._plan.model.fingerprint:
            raise other_model()
        questions = () if header.decision is None else header.decision.questions
        slots = tuple(slot.position for slot in header.slots)
        self._canvases[reply.run_id] = ReadCanvas(questions, header.config.canvas_length or 0, slots)

    def _decided(self) -> Decided:
        """Returns the answers; raises ``ApiError`` if a run ended without a read."""
        try:
            answers = [answer for reads in self._reads.values() for answer in reads.answers(self._plan.temperature)]
        except SafelightError as error:
            raise ApiError(500, f"{error}.") from None
        taken = [reads.usage for reads in self._reads.values()]
        usage = DecisionUsage(
            sum(one.prompt_tokens for one in taken),
            sum(one.reused_tokens for one in taken),
            sum(one.answer_tokens for one in taken),
        )
        return Decided(tuple(answers), usage, tuple(self._canvases[run] for run in self._reads))

    def _count(self, decided: Decided) -> None:
        add, usage = self._context.metrics.add, decided.usage
        add("decisions_total", len(decided.answers))
        add("prompt_tokens_total", usage.prompt_tokens)
        add("cached_tokens_total", usage.reused_tokens)
        for run, reads in self._reads.items():
            add("denoising_steps_total", reads.reads)
            add("canvas_positions_total", reads.reads * self._canvases[run].width)


def _decision(request: RunRequest) -> Decision:
    assert request.decision is not None
    return request.decision
