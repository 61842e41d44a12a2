"""A model on a server of OpenAI's kind: it chats, and nothing is known of its tokens and steps."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from engine.errors import SafelightError, Sentence, sentence
from engine.events import Event
from engine.service.remote import chat
from engine.service.remote.calls import Calls, Check, RemoteModel
from engine.service.remote.problems import RefusedError, RemoteError
from engine.service.replies import Capabilities, LoadedModel
from engine.service.requests import ChatRun, RunRequest
from engine.text.context_window import fit
from engine.text.message import Message, image_digests
from engine.text.reply import Reply
from engine.trace.header import ModelIdentity, TraceHeader, kept
from engine.trace.writer import by_number, is_never_special

PARALLEL_RUNS = 4
LONGEST_ANSWER = 2048  # tokens of an answer by default; at most half of the context
DEVICE = "remote"
BYTES_PER_TOKEN = 3.5  # of prose in UTF-8, a low estimate
TOKENS_PER_MESSAGE = 5  # turn marks
TOKENS_PER_IMAGE = 1_000  # of most models, a high estimate


class ForeignModel:
    """A ``Dialect`` that gives text; ``model`` is as the server lists it."""

    def __init__(self, calls: Calls, model: RemoteModel, title: str) -> None:
        self._calls, self._model = calls, model
        self.loaded = _describe(model, title)

    def read(self, request: RunRequest, check: Check) -> Generator[TraceHeader | Event, None, None]:
        if not isinstance(request, ChatRun) or request.outline:
            raise RemoteError("The server at {where} can only chat.", where=self._calls.address.origin)
        without_tools = dataclasses.replace(request, tools=(), output_format=None)
        if not self.loaded.reads_tools and not request.is_held:
            request = without_tools
        messages = self._fitting(request)
        yield self._header(request, messages)
        try:
            yield from self._answer(request, messages, check)
        except RefusedError as error:
            if request.tools and not request.is_held:  # some servers refuse all tools
                yield from self._answer(without_tools, messages, check)
                self.loaded = dataclasses.replace(self.loaded, reads_tools=False)
                return
            if not image_digests(messages):
                raise
            pattern = "{why} Perhaps its model cannot see pictures: start a conversation without them."
            raise RemoteError(pattern, why=sentence(error.sentence)) from error

    def _answer(self, request: ChatRun, messages: tuple[Message, ...], check: Check) -> Generator[Event, None, None]:
        body = chat.body_of(request, messages, self._model)
        reader = chat.ChatReader(self._calls.address, offers_tools=bool(request.tools))
        url = self._calls.address.base + "/chat/completions"
        with self._calls.asking(url, body, f"{chat.STREAM}, {chat.WHOLE}", check) as answer:
            yield from reader.read(answer)

    def _fitting(self, request: ChatRun) -> tuple[Message, ...]:
        """Returns the part of a conversation that fits the context, if the context is known."""
        if not self._model.context:
            return request.messages
        count = functools.partial(estimate, tools=request.tools)
        selection = fit(request.messages, count, self._model.context, request.reserve)
        if isinstance(selection.problem, Sentence):
            raise RemoteError(selection.problem)
        return tuple(dict(message) for message in selection.kept)

    def _header(self, request: ChatRun, messages: tuple[Message, ...]) -> TraceHeader:
        model = self._model
        return TraceHeader(
            model=ModelIdentity(model.id, self.loaded.title, str(model.address), device=DEVICE),
            prompt=str(messages[-1]["content"]),
            config=request.config.replace(canvas_length=None),  # nothing is known of its canvases
            seed=request.seed if request.is_seed_set else None,
            messages=tuple(map(kept, messages)),
            think=request.think,
            output_format=request.output_format,
        )


def _describe(model: RemoteModel, title: str) -> LoadedModel:
    longest = min(LONGEST_ANSWER, max(1, model.context // 2) if model.context else LONGEST_ANSWER)
    return LoadedModel(
        path_or_id=str(model.address),
        title=title,
        name=model.id,
        defaults=chat.NEUTRAL.replace(max_new_tokens=longest),
        canvas_length=1,
        parameter_count=0,
        device=DEVICE,
        load_seconds=0.0,
        vocab_size=0,
        piece=by_number,
        is_special=is_never_special,
        decode=lambda _ids: Reply(""),
        reads_tools=True,  # until it refuses them
        write=lambda _ids: "",
        count_tokens=estimate,
        encode=_no_tokens,
        prompt_ids=_no_tokens,
        fingerprint="",
        context=model.context,
        kernels="vLLM" if model.kind == "vllm" else "",
        device_reason=Sentence("on the server {where}", where=model.address.origin),
        capabilities=Capabilities(structured=True, images=True, parallel_runs=PARALLEL_RUNS),
        decoders=("autoregressive",),
        settings=chat.SETTINGS,
    )


def _no_tokens(_given: object) -> list[int]:
    raise SafelightError("this model's tokens are not known: it runs on a server that only sends text")


def estimate(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    size = sum(len(str(message.get("content", "")).encode("utf-8", "replace")) for message in messages)
    size += sum(len(json.dumps(tool)) for tool in tools)
    images = sum(len(message.get("images", ())) for message in messages)
    return round(size / BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE * (len(messages) + 1) + TOKENS_PER_IMAGE * images
