"""``/v1/edit/completions`` and ``/v1/apply/completions`` of Inception's Mercury: code is rewritten.

Block diffusion begins with the code as its first canvas, partly replaced by noise, so that it changes what is to be
changed; other decoders answer an ordinary prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from engine.server.answer import ServedAnswer
from engine.server.bodies import read_body
from engine.server.chat import plan_chat
from engine.server.chunks import ChunkWriter
from engine.server.completions import EDITOR_MODELS
from engine.server.context import ServerContext
from engine.server.edit_request import FENCE, NO_EDIT, RegionEdit, applied_edit, next_edit
from engine.server.errors import ApiError
from engine.server.messages import read_content
from engine.server.planning import RunPlan, take_any_name
from engine.server.schemas import ChatMessage, ChatRequest
from engine.server.serving import Choice, RunResponse
from engine.text.output_parts import ContentPart, OutputPart, joined_text

PATH, APPLY_PATH = "/v1/edit/completions", "/v1/apply/completions"
NOISE = 0.5  # the share of the first canvas that is noise
MORE_TOKENS = 128  # by which the rewritten code may be longer


def routes(context: ServerContext) -> list[Route]:
    def route(path: str, read: Callable[[str], RegionEdit], *, follows_one: bool) -> Route:
        async def answer(request: Request) -> RunResponse:
            body = await read_body(request, context, ChatRequest)
            edit, found = await asyncio.to_thread(_plan, context, body, read)
            writer = EditWriter(found, body, edit, is_whole=read is applied_edit)
            return RunResponse(context, found, writer, path, is_streamed=bool(body.stream), follows_one=follows_one)

        return Route(path, answer, methods=["POST"])

    return [route(PATH, next_edit, follows_one=True), route(APPLY_PATH, applied_edit, follows_one=False)]


def _plan(
    context: ServerContext, body: ChatRequest, read: Callable[[str], RegionEdit]
) -> tuple[RegionEdit, tuple[RunPlan, ...]]:
    """Reads a request and plans its runs, with as much of the context as fits. Slow.

    Raises:
        ApiError: the message marks no code, or there is no room for the code.
    """
    take_any_name(body, *EDITOR_MODELS)
    asked = [message for message in body.messages if message.role == "user"]
    edit = read(read_content(asked[-1].content, "messages") if asked else "")
    model, _ = context.pick(body.model)
    code = model.encode(edit.code)
    most = len(code) + MORE_TOKENS
    longest = body.max_completion_tokens if body.max_tokens is None else body.max_tokens
    body.max_tokens = most if longest is None else min(longest, most)
    body.max_completion_tokens = None
    for shorter in edit.shorter():
        body.messages = [ChatMessage.model_validate({"role": "user", "content": shorter.prompt})]
        try:
            found = plan_chat(context, body)
        except ApiError as error:
            if error.code != "context_length_exceeded":
                raise
            continue
        if found.settings.max_tokens >= min(body.max_tokens, len(code) + 1):
            return edit, tuple(_begun(plan, code) for plan in found.choices(body.n))
    raise ApiError(
        400,
        "The code to rewrite is too long for the model's context; mark less of it.",
        param="messages",
        code="context_length_exceeded",
    )


def _begun(plan: RunPlan, code: list[int]) -> RunPlan:
    """Returns a plan whose first canvas begins as the code under noise, if it has a canvas and the code fits."""
    config = plan.request.config
    if not config.is_block_diffusion or not 0 < len(code) < config.canvas(plan.model.canvas_length):
        return plan
    return plan.with_prediction(code, NOISE)


class EditWriter(ChunkWriter):
    """Writes rewritten code once it is whole: in a fence, or as it is.

    An edit that changes nothing, or was cut, is written as none.

    Args:
        is_whole: the code is all of a file, which has no fence, and is no edit to be left out.
    """

    def __init__(self, plans: Sequence[RunPlan], body: ChatRequest, edit: RegionEdit, *, is_whole: bool) -> None:
        head = {"id": f"edit-{plans[0].request.run_id}"}
        super().__init__(plans, body, head, {"object": "edit.completion.chunk"}, {"delta": {}})
        self._edit, self._is_whole = edit, is_whole
        self._texts = [""] * len(plans)

    def begin(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        for answer in answers:
            yield self._chunk(answer, {"delta": {"role": "assistant", "content": ""}})

    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterable[bytes]:
        self._texts[answer.index] += joined_text(parts, ContentPart)
        return ()

    def end(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        for answer in answers:
            yield self._chunk(answer, {"delta": {"content": self._content(answer, self._texts[answer.index])}})
        yield from super().end(answers)

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        found = super().whole(choices) | {"object": "edit.completion"}
        for choice, (parts, answer) in zip(found["choices"], choices, strict=True):
            content = self._content(answer, joined_text(parts, ContentPart))
            choice["message"] = {"role": "assistant", "content": content}
        usage = found["usage"]
        usage["reasoning_tokens"] = usage["completion_tokens_details"]["reasoning_tokens"]
        usage["cached_input_tokens"] = usage["prompt_tokens_details"]["cached_tokens"]
        return found

    def _content(self, answer: ServedAnswer, text: str) -> str:
        code = self._edit.written(text)
        if self._is_whole:
            return code
        if answer.finish_reason == "length" or code == self._edit.code:
            return NO_EDIT
        return f"{FENCE}\n{code}\n{FENCE}"

    def _entry(self, parts: Sequence[OutputPart]) -> dict[str, Any]:  # noqa: ARG002 - ``whole`` has what it depends on
        return {}

    def _logprobs(self, answer: ServedAnswer) -> None:
        answer.take_chances()
