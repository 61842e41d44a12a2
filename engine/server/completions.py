"""``/v1/completions``: continues a prompt unchanged, without a template."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from engine.server.answer import AnswerSettings, ServedAnswer, TokenChance
from engine.server.bodies import read_body
from engine.server.chunks import ChunkWriter
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.formats import read_format
from engine.server.planning import RunPlan, plan, seed_of
from engine.server.schemas import CompletionRequest
from engine.server.serving import RunResponse
from engine.service import LoadedModel, RunRequest
from engine.text.output_parts import ContentPart, OutputPart, joined_text

PATH = "/v1/completions"
DEFAULT_TOKENS = 16  # OpenAI's


def routes(context: ServerContext) -> list[Route]:
    async def answer(request: Request) -> RunResponse:
        body = await read_body(request, context, CompletionRequest)
        found = await asyncio.to_thread(plan_completions, context, body)
        return RunResponse(context, found, CompletionWriter(found, body), PATH, is_streamed=bool(body.stream))

    return [Route(PATH, answer, methods=["POST"])]


def plan_completions(context: ServerContext, body: CompletionRequest) -> tuple[RunPlan, ...]:
    """Plans the runs of completions: of each prompt in order, as many as requested. Slow.

    Raises:
        ApiError: they cannot be run as requested.
    """
    body.seed = seed_of(body)  # the same for each prompt
    return tuple(plan for prompt in body.prompts for plan in _plan(context, body, prompt).choices(body.n))


def _plan(context: ServerContext, body: CompletionRequest, prompt: str | list[int]) -> RunPlan:
    def make_request(model: LoadedModel, fields: dict[str, Any]) -> RunRequest:
        scores = body.logprobs if body.echo else None
        if isinstance(prompt, str):
            return RunRequest("completion", (), text=prompt, prompt_scores=scores, **fields)
        if not prompt:
            raise ApiError(400, "The prompt is empty; send text, or tokens.", param="prompt")
        if max(prompt) >= model.vocab_size:
            raise ApiError(400, f"The model's vocabulary ends at {model.vocab_size - 1}.", param="prompt")
        text, ids = model.write(prompt), tuple(prompt)
        return RunRequest("completion", (), text=text, ids=ids, prompt_scores=scores, **fields)

    settings = AnswerSettings(max_tokens=0, stops=body.stops, is_raw=True, top_logprobs=body.logprobs)
    longest = DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
    found = plan(context, body, longest, body.logprobs, make_request, settings, read_format(body))
    if not body.echo:
        return found
    return dataclasses.replace(found, settings=dataclasses.replace(found.settings, echo=found.request.text))


class CompletionWriter(ChunkWriter):
    def __init__(self, plans: Sequence[RunPlan], body: CompletionRequest) -> None:
        head = {"id": f"cmpl-{plans[0].request.run_id}", "object": "text_completion"}
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
            "top_logprobs": [None if chance.logprob is None else _top(chance) for chance in known],
            "text_offset": offsets,
        }


def _top(chance: TokenChance) -> dict[str, float]:
    return {text: logprob for _, text, logprob in chance.top}
