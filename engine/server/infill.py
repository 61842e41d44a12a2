"""``/infill`` as llama-server has it, for llama.vim, llama.vscode and their like: the text of a gap in code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server.answer import ServedAnswer
from engine.server.bodies import checked, read_body
from engine.server.chunks import timings_of
from engine.server.completions import plan_gap
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.planning import RunPlan
from engine.server.schemas import GAP_TOKENS, MAX_ANSWERS, MAX_STOPS, AnyLength, AnySeed, FimRequest, ModelName, Stop
from engine.server.serving import AnswerWriter, Choice, RunResponse, event
from engine.server.strict import RequestBody, Strict
from engine.service import LoadedModel
from engine.text.gap_markers import MAX_FILES, GapFile
from engine.text.output_parts import ContentPart, OutputPart, joined_text

PATH = "/infill"
MAX_EXTRA = 1_000
NO_FORMAT = "the text of a gap has no format"
MAX_FIELDS = 64  # of an answer that a client names
LONGEST_MS = 3_600_000
OWN_ENDS = {"stop": "eos", "length": "limit"}
NOTHING: dict[str, Any] = {
    "index": 0,
    "content": "",
    "tokens": [],
    "id_slot": 0,
    "tokens_predicted": 0,
    "tokens_evaluated": 0,
}


class ExtraFile(Strict):
    PLACE = "input_extra."
    filename: Annotated[str, Field(max_length=1_000)] | None = None
    text: str | None = None


class InfillRequest(RequestBody):
    """Body of ``/infill``: the text is ``input_prefix``, ``prompt``, the gap, ``input_suffix``."""

    PLACE = ""
    NEUTRAL = {  # noqa: RUF012 - declared a ClassVar in the base class
        "grammar": (("",), NO_FORMAT),
        "json_schema": (({},), NO_FORMAT),
        "ignore_eos": ((False,), "the model ends its text itself"),
    }
    model: ModelName | None = None
    input_prefix: str | None = None
    input_suffix: str | None = None
    input_extra: Annotated[list[ExtraFile], Field(max_length=MAX_EXTRA)] | None = None
    prompt: str | None = None
    n_predict: AnyLength = None
    n_cmpl: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    seed: AnySeed = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    stream: bool | None = None
    t_max_predict_ms: Annotated[int, Field(ge=-1, le=LONGEST_MS)] | None = None
    response_fields: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=MAX_FIELDS)] | None = None

    @property
    def files(self) -> tuple[GapFile, ...]:
        """The other files, the newest last."""
        return tuple(GapFile(one.filename or "", one.text or "") for one in (self.input_extra or ())[-MAX_FILES:])

    def as_fim(self) -> FimRequest:
        """Converts it to a request of a gap.

        Raises:
            ApiError: a value is not one of it.
        """
        asked = {name: getattr(self, name) for name in ("model", "stop", "seed", "top_k", "top_p", "min_p", "stream")}
        asked |= {
            "prompt": (self.input_prefix or "") + (self.prompt or ""),
            "suffix": self.input_suffix or "",
            "max_tokens": GAP_TOKENS if self.n_predict in (None, -1) else self.n_predict,
            "n": self.n_cmpl,
            "temperature": None if self.temperature is None else min(self.temperature, 2.0),
        }
        return checked(FimRequest, asked, self.ignored)


def routes(context: ServerContext) -> list[Route]:
    async def fill(request: Request) -> RunResponse | Response:
        body = await read_body(request, context, InfillRequest)
        if body.n_predict == 0:  # it only warms a cache
            model, _ = context.pick(body.model)
            return JSONResponse(_selected(_ended(model), body.response_fields))
        plans = await asyncio.to_thread(_plan, context, body)
        writer = InfillWriter(plans, body)
        return RunResponse(context, plans, writer, PATH, is_streamed=bool(body.stream))

    return [Route(PATH, fill, methods=["POST"])]


def _plan(context: ServerContext, body: InfillRequest) -> tuple[RunPlan, ...]:
    plans, limit = plan_gap(context, body.as_fim(), body.files), (body.t_max_predict_ms or 0) / 1000
    return tuple(plan.with_time(limit) for plan in plans) if limit > 0 else plans


class InfillWriter(AnswerWriter):
    """Writes the text of a gap as llama-server does; a stream ends without a mark."""

    alive = b""  # its clients read no comments

    def __init__(self, plans: Sequence[RunPlan], body: InfillRequest) -> None:
        self._plans, self._fields = plans, body.response_fields

    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterator[bytes]:
        yield event(_head(answer) | {"content": joined_text(parts, ContentPart), "stop": False})

    def end(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        for answer in answers:
            yield event(_selected(self._last("", answer), self._fields))

    def fail(self, error: ApiError) -> Iterable[bytes]:
        yield event(error.body)

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any] | list[dict[str, Any]]:
        answers = [
            _selected(self._last(joined_text(parts, ContentPart), answer), self._fields) for parts, answer in choices
        ]
        return answers[0] if len(answers) == 1 else answers

    def _last(self, content: str, answer: ServedAnswer) -> dict[str, Any]:
        plan = self._plans[answer.index]
        return _ended(plan.model, plan) | {
            **_head(answer),
            "content": content,
            "model": plan.name,
            "has_new_line": "\n" in answer.settled,
            "stop_type": "word" if answer.stop is not None else OWN_ENDS[answer.finish_reason],
            "stopping_word": answer.stop or "",
            "tokens_cached": answer.prompt_tokens + len(answer.tokens),
            "timings": timings_of([answer]),
        }


def _head(answer: ServedAnswer) -> dict[str, Any]:
    counts = {"tokens_predicted": len(answer.tokens), "tokens_evaluated": answer.prompt_tokens}
    return {**NOTHING, "index": answer.index, **counts}


def _ended(model: LoadedModel, plan: RunPlan | None = None) -> dict[str, Any]:
    """Returns the end of an answer without text, which is the whole answer to a request that wants none."""
    settings: dict[str, Any] = {"n_ctx": model.context}
    if plan is not None:
        settings |= {"n_predict": plan.settings.max_tokens, "seed": plan.request.seed}
    return {
        **NOTHING,
        "stop": True,
        "model": model.name,
        "generation_settings": settings,
        "has_new_line": False,
        "truncated": False,
        "stop_type": "limit",
        "stopping_word": "",
        "tokens_cached": 0,
        "timings": timings_of(()),
    }


def _selected(answer: dict[str, Any], paths: Sequence[str] | None) -> dict[str, Any]:
    """Returns the fields that a client names, by their paths with slashes; all of them if it names none."""
    if not paths:
        return answer
    selected: dict[str, Any] = {}
    for path in paths:
        value: Any = answer
        for name in path.split("/"):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            selected[path] = value
    return selected
