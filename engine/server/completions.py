"""``/v1/completions``: continues a prompt unchanged, without a template, or fills the gap before a suffix.

``/v1/fim/completions`` is the same in the form that clients of Mistral and Inception read.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from engine.server.answer import AnswerSettings, ServedAnswer
from engine.server.bodies import read_body
from engine.server.chunks import ChunkWriter
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.formats import contradicting, read_format
from engine.server.planning import RunPlan, ignore_name, plan
from engine.server.schemas import CompletionRequest, FimRequest
from engine.server.serving import RunResponse
from engine.service import CompletionRun, GapRun, LoadedModel
from engine.text.gap_markers import MARKERS, GapFile, TextGap, parse
from engine.text.output_parts import ContentPart, OutputPart, joined_text

PATH, FIM_PATH = "/v1/completions", "/v1/fim/completions"
DEFAULT_TOKENS = 16  # OpenAI's
EDITOR_MODELS = ("mercury", "codestral")  # beginnings of names that editors send whatever is loaded


def routes(context: ServerContext) -> list[Route]:
    def route(path: str, kind: type[CompletionRequest], writer: type[CompletionWriter]) -> Route:
        async def answer(request: Request) -> RunResponse:
            body = await read_body(request, context, kind)
            plans = await asyncio.to_thread(plan_completions, context, body)
            return RunResponse(context, plans, writer(plans, body), path, is_streamed=bool(body.stream))

        return Route(path, answer, methods=["POST"])

    return [route(PATH, CompletionRequest, CompletionWriter), route(FIM_PATH, FimRequest, FimWriter)]


def plan_completions(context: ServerContext, body: CompletionRequest) -> tuple[RunPlan, ...]:
    """Plans the runs of completions: of each prompt in order, as many as requested. Slow.

    Raises:
        ApiError: they cannot be run as requested.
    """
    body.seed = body.chosen_seed  # the same for each prompt
    if body.suffix is not None or isinstance(body, FimRequest):
        ignore_name(body, *EDITOR_MODELS)
    return tuple(plan for prompt in body.prompts for plan in _plan(context, body, prompt).choices(body.n))


def plan_gap(
    context: ServerContext, body: FimRequest, files: tuple[GapFile, ...], length: int | None = None
) -> tuple[RunPlan, ...]:
    """Plans the runs that fill one gap, which may be at the end of its text. Slow.

    Args:
        files: others that the model may read, the least important first.
        length: exactly so many tokens; None: not known.

    Raises:
        ApiError: they cannot be run as requested.
    """
    ignore_name(body, *EDITOR_MODELS)
    [prompt] = body.prompts
    return _plan(context, body, prompt, files, length).choices(body.n)


def _plan(
    context: ServerContext,
    body: CompletionRequest,
    prompt: str | list[int],
    files: tuple[GapFile, ...] | None = None,
    length: int | None = None,
) -> RunPlan:
    """Plans the run of one prompt, which has a gap if ``files`` are given, be they none."""
    asked_format, scores = read_format(body), body.logprobs if body.echo else None
    if asked_format is not None and body.behind is not None:
        raise contradicting(asked_format.field, "suffix")
    model, fields = context.model_and_fields(body)
    if not isinstance(prompt, str):
        _check_tokens(prompt, model)
    gap = _gap(model, body, prompt, is_certain=files is not None)
    settings = AnswerSettings(stops=body.stops, is_raw=asked_format is None, top_logprobs=body.logprobs)
    longest = DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
    if gap is None:
        text, ids = (prompt, ()) if isinstance(prompt, str) else (model.write(prompt), tuple(prompt))
        if not text:
            raise ApiError(400, "The prompt is empty; send text, or tokens.", param="prompt")
        output_format = None if asked_format is None else asked_format.format
        request = CompletionRun(text=text, ids=ids, prompt_scores=scores, output_format=output_format, **fields)
        settings = dataclasses.replace(settings, echo=text if body.echo else None)
        return plan(context, body, model, request, longest, settings, "prompt", asked_format)
    if scores is not None:
        raise contradicting("echo", "suffix")
    if asked_format is not None:
        raise contradicting(asked_format.field, "prompt")
    gap = gap if files is None else dataclasses.replace(gap, files=files)
    return plan(context, body, model, GapRun(gap=gap, length=length, **fields), longest, settings, "prompt")


def _check_tokens(prompt: list[int], model: LoadedModel) -> None:
    if not prompt:
        raise ApiError(400, "The prompt is empty; send text, or tokens.", param="prompt")
    if max(prompt) >= model.vocab_size:
        raise ApiError(400, f"The model's vocabulary ends at {model.vocab_size - 1}.", param="prompt")


def _gap(model: LoadedModel, body: CompletionRequest, prompt: str | list[int], *, is_certain: bool) -> TextGap | None:
    """Returns the gap that a request asks for, by its suffix or by markers in its prompt; None if it has none."""
    if body.behind is not None or is_certain:
        return TextGap(prompt if isinstance(prompt, str) else model.write(prompt), body.behind or "")
    if not isinstance(prompt, str) or (gap := parse(prompt)) is None:
        return None
    readable = (markers for markers in MARKERS if all(len(model.encode(token)) == 1 for token in markers.tokens))
    return None if any(markers.parse(prompt) for markers in readable) else gap  # the model reads it itself, as it is


class CompletionWriter(ChunkWriter):
    NAME, OBJECT = "cmpl", "text_completion"

    def __init__(self, plans: Sequence[RunPlan], body: CompletionRequest) -> None:
        head = {"id": f"{self.NAME}-{plans[0].request.run_id}", "object": self.OBJECT}
        super().__init__(plans, body, head, {}, {"text": ""})
        self._top = body.logprobs
        self._offsets = [0] * len(plans)  # of each answer's next token in its text
        self._echoes = [len(plan.settings.echo or "") for plan in plans]

    def begin(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        for answer in answers:
            yield self._chunk(answer, self._empty)

    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterator[bytes]:
        for part in parts:
            if isinstance(part, ContentPart):
                yield self._chunk(answer, {"text": part.text}, logprobs=self._logprobs(answer))

    def _entry(self, parts: Sequence[OutputPart]) -> dict[str, Any]:
        return {"text": joined_text(parts, ContentPart)}

    def _logprobs(self, answer: ServedAnswer) -> dict[str, Any] | None:
        prompt = answer.take_prompt()
        known = [*prompt, *answer.take_chances()]
        if self._top is None or not known:
            return None
        if prompt:  # tokens before the text that was sent, which the tokenizer adds, have no place in it
            self._offsets[answer.index] = self._echoes[answer.index] - sum(len(chance.text) for chance in prompt)
        offsets = []
        for chance in known:
            offsets.append(max(0, self._offsets[answer.index]))
            self._offsets[answer.index] += len(chance.text)
        return {
            "tokens": [chance.text for chance in known],
            "token_logprobs": [chance.logprob for chance in known],
            "top_logprobs": [
                None if one.logprob is None else {text: logprob for _, text, logprob in one.top} for one in known
            ],
            "text_offset": offsets,
        }


class FimWriter(CompletionWriter):
    """Writes the text of a gap twice: as Mistral's clients read it, and as ``text``, as Inception's do."""

    NAME, OBJECT = "fim", "chat.completion"

    def _chunk(self, answer: ServedAnswer, fields: dict[str, Any], *ending: Any, **more: Any) -> bytes:
        fields = {**fields, "delta": {"role": "assistant", "content": fields["text"]}}
        return super()._chunk(answer, fields, *ending, **{"object": f"{self.OBJECT}.chunk", **more})

    def _entry(self, parts: Sequence[OutputPart]) -> dict[str, Any]:
        entry = super()._entry(parts)
        return {**entry, "message": {"role": "assistant", "content": entry["text"], "tool_calls": None}}
