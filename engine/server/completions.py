"""``/v1/completions``: continues a prompt unchanged, without a template."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from engine.server.answer import AnswerSettings, ServedAnswer
from engine.server.bodies import read_body
from engine.server.chunks import ChunkWriter
from engine.server.context import ServerContext
from engine.server.errors import ApiError, unsupported
from engine.server.formats import read_format
from engine.server.planning import RunPlan, plan
from engine.server.schemas import CompletionRequest
from engine.server.serving import RunResponse
from engine.service import LoadedModel, RunRequest
from engine.text.output_parts import ContentPart, OutputPart, joined_text

PATH = "/v1/completions"
DEFAULT_TOKENS = 16  # OpenAI's


def routes(context: ServerContext) -> list[Route]:
    async def answer(request: Request) -> RunResponse:
        body = await read_body(request, context, CompletionRequest)
        found = await asyncio.to_thread(plan_completion, context, body)
        return RunResponse(context, found, CompletionWriter(found, body), PATH, is_streamed=bool(body.stream))

    return [Route(PATH, answer, methods=["POST"])]


def plan_completion(context: ServerContext, body: CompletionRequest) -> RunPlan:
    """Plans the run of a completion. Slow.

    Raises:
        ApiError: it cannot be run as requested.
    """

    def make_request(model: LoadedModel, fields: dict[str, Any]) -> RunRequest:
        return RunRequest("completion", (), text=_prompt(body, model), **fields)

    settings = AnswerSettings(max_tokens=0, stops=body.stops, is_raw=True, top_logprobs=body.logprobs)
    longest = DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
    return plan(context, body, longest, body.logprobs, make_request, settings, read_format(body))


def _prompt(body: CompletionRequest, model: LoadedModel) -> str:
    prompt = body.prompt
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1 and isinstance(prompt[0], str):
        return prompt[0]
    ids = [token for token in prompt if isinstance(token, int)]
    if not ids or len(ids) < len(prompt):
        raise ApiError(400, "A request can have one prompt; send the others separately.", param="prompt")
    text = model.write(ids)
    if model.encode(text) != ids:
        raise unsupported("The tokenizer would not make these tokens from their text; send the text.", "prompt")
    return text


class CompletionWriter(ChunkWriter):
    def __init__(self, plan: RunPlan, body: CompletionRequest) -> None:
        head = {"id": f"cmpl-{plan.request.run_id}", "object": "text_completion"}
        super().__init__(plan, body, head, {}, {"text": ""})
        self._top = body.logprobs
        self._offset = 0  # of the next token in the text

    def begin(self) -> Iterator[bytes]:
        yield self._chunk(self._empty)

    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterator[bytes]:
        for part in parts:
            if isinstance(part, ContentPart):
                yield self._chunk({"text": part.text}, logprobs=self._logprobs(answer))

    def whole(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> dict[str, Any]:
        return self._whole({"text": joined_text(parts, ContentPart)}, self._logprobs(answer), answer)

    def _logprobs(self, answer: ServedAnswer) -> dict[str, Any] | None:
        known = answer.take_chances()
        if self._top is None or not known:
            return None
        offsets = []
        for chance in known:
            offsets.append(self._offset)
            self._offset += len(chance.text)
        return {
            "tokens": [chance.text for chance in known],
            "token_logprobs": [chance.logprob for chance in known],
            "top_logprobs": [{text: logprob for _, text, logprob in chance.top} for chance in known],
            "text_offset": offsets,
        }
