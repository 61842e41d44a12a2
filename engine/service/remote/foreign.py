"""A model on a server of OpenAI's kind: it chats, may decide, and nothing is known of its steps."""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from engine.catalog import Traits
from engine.errors import SafelightError, Sentence
from engine.events import Event, Influence
from engine.service.capabilities import Capabilities
from engine.service.remote import chat, problems, systemone
from engine.service.remote.calls import Calls, Check, count_of, no_check
from engine.service.remote.discovery import RemoteModel, ServerKind
from engine.service.remote.problems import LostError, NotReadyError, RefusedError, RemoteError
from engine.service.remote.systemone import DecisionOffer
from engine.service.replies import AdapterChanged, LoadedModel
from engine.service.requests import AdapterRequest, InfluenceRequest, RunRequest
from engine.tasks.decisions.questions import Decision
from engine.text.context_window import fit
from engine.text.message import Message, image_digests, message_of, with_images
from engine.text.reply import Reply
from engine.trace.header import ModelIdentity, TraceHeader
from engine.trace.live import by_number, is_never_special

PARALLEL_RUNS = 4
LONGEST_ANSWER = 2048  # tokens of an answer by default; at most half of the context
DEVICE = "remote"
NO_OFFER = DecisionOffer()
BYTES_PER_TOKEN = 3.5  # of prose in UTF-8, a low estimate
TOKENS_PER_MESSAGE = 5  # turn marks
TOKENS_PER_IMAGE = 1_000  # of most models, a high estimate
TRAITS = Traits(introduction="Another machine runs this model, and sends its answers as text.")


class ForeignModel:
    """A ``Dialect`` that gives text, and probabilities if the server ``decides``, too.

    Args:
        model: as the server lists it.
        offer: how its server decides.
    """

    def __init__(self, calls: Calls, model: RemoteModel, title: str, offer: DecisionOffer = NO_OFFER) -> None:
        self._calls, self._model, self._offer = calls, model, offer
        count = functools.partial(count_tokens, calls, model.kind)
        self.loaded = _describe(model, title, count, decides=offer.decides)

    def read(self, request: RunRequest, check: Check) -> Generator[TraceHeader | Event, None, None]:
        if request.decision is not None:
            yield from self._decide(request, request.decision, check)
            return
        if request.kind not in ("chat", "puzzle") or request.outline:
            raise RemoteError("The server at {where} can only chat.", where=self._calls.address.origin)
        without_tools = dataclasses.replace(request, tools=(), output_format=None)
        if not self.loaded.reads_tools and not request.is_held:
            request = without_tools
        if request.is_held and not self.loaded.capabilities.structured:
            where = self._calls.address.origin
            raise RemoteError("The server at {where} supports no format with this model.", where=where)
        messages = self._fitting(request, check)
        yield self._header(request, messages)
        try:
            yield from self._answer(request, messages, check)
        except RefusedError as error:
            if (
                request.tools and not request.is_held
            ):  # a vLLM that was started without a parser of calls refuses all tools
                yield from self._answer(without_tools, messages, check)
                self.loaded = dataclasses.replace(self.loaded, reads_tools=False)
                return
            if self._model.sees or not image_digests(messages):
                raise
            pattern = "{why} Perhaps its model cannot see pictures: start a conversation without them."
            raise RemoteError(pattern, why=_sentence(error.sentence)) from error

    def _answer(self, request: RunRequest, messages: tuple[Message, ...], check: Check) -> Generator[Event, None, None]:
        """Yields the events of an answer. If its server is lost before the first of them, it is asked for once more."""
        body = chat.body_of(request, messages, self._model)
        events = self._events(body, bool(request.tools), check)
        try:
            first = next(events)
        except LostError:
            yield from self._events(body, bool(request.tools), check)
            return
        yield first
        yield from events

    def _events(self, body: dict[str, Any], offers_tools: bool, check: Check) -> Generator[Event, None, None]:
        """Yields the events of an answer. While the server says nothing, it is asked whether it still runs."""
        calls, reader = self._calls, chat.ChatReader(self._calls.address, offers_tools=offers_tools)
        is_over, is_lost, asked = threading.Event(), threading.Event(), reader.heard

        def while_it_matters() -> None:
            if is_over.is_set() or reader.heard > asked:
                raise RemoteError("The answer goes on.")

        def ask_whether_it_runs() -> None:
            try:
                calls.json(calls.address.base + "/models", check=while_it_matters)
            except NotReadyError:  # it is busy
                return
            except LostError:
                is_lost.set()
            except SafelightError:
                return

        def see_that_it_runs() -> None:
            nonlocal asked
            check()
            if is_lost.is_set() and reader.heard <= asked:
                raise problems.stopped(calls.address)
            if time.monotonic() - max(asked, reader.heard) >= calls.patience.silence:
                is_lost.clear()
                asked = time.monotonic()
                threading.Thread(target=ask_whether_it_runs, name="safelight-watch", daemon=True).start()

        url = calls.address.base + "/chat/completions"
        try:
            with calls.asking(url, body, f"{chat.STREAM}, {chat.WHOLE}", see_that_it_runs) as answer:
                yield from reader.read(answer)
        finally:
            is_over.set()

    def _decide(
        self, request: RunRequest, decision: Decision, check: Check
    ) -> Generator[TraceHeader | Event, None, None]:
        if not self.loaded.capabilities.decisions:
            raise RemoteError(
                "The server at {where} has no /v1/systemone for this model.", where=self._calls.address.origin
            )
        if decision.is_joint and not self._offer.joint:  # the server would read them one by one in any case
            decision = dataclasses.replace(decision, is_joint=False)
        system = ({"role": "system", "content": decision.instructions},) if decision.instructions else ()
        asked = dataclasses.replace(request, decision=decision)
        yield self._header(asked, (*system, message_of(_asked(decision), request.pictures)))
        yield from systemone.decide(self._calls, decision, request.pictures, check)

    def _fitting(self, request: RunRequest, check: Check) -> tuple[Message, ...]:
        """Returns the part of a conversation that fits the context, if the context is known."""
        if not self._model.context or request.kind != "chat":
            return request.messages
        count = functools.partial(count_tokens, self._calls, self._model.kind, tools=request.tools, check=check)
        found = fit(request.messages, count, self._model.context, request.reserve)
        if isinstance(found.problem, Sentence):
            raise RemoteError(found.problem)
        return tuple(dict(message) for message in found.kept)

    def _header(self, request: RunRequest, messages: tuple[Message, ...]) -> TraceHeader:
        model = self._model
        kept = tuple(
            {name: message[name] for name in ("role", "content", "images") if name in message} for message in messages
        )
        return TraceHeader(
            model=ModelIdentity(model.id, self.loaded.title, str(model.address), device=DEVICE),
            prompt=str(kept[-1]["content"]) if kept else request.text,
            config=request.config.replace(canvas_length=None),  # nothing is known of its canvases
            seed=request.seed if self._follows_seed(request) else None,
            messages=kept,
            think=request.think,
            decision=request.decision,
            output_format=request.output_format,
        )

    def _follows_seed(self, request: RunRequest) -> bool:
        return request.is_seed_set and request.decision is None and "seed" in chat.settings_of(self._model)

    def count_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
        return count_tokens(self._calls, self._model.kind, messages, tools)

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        message = Sentence("The server chooses its adapters; choose one of its models instead.")
        return AdapterChanged(request.path_or_id, message="" if request.path_or_id is None else message)

    def measure(self, _request: InfluenceRequest) -> Influence:
        raise RemoteError("The server at {where} can only chat.", where=self._calls.address.origin)


def _sentence(said: str) -> str:
    """Returns a server's sentence with a full stop."""
    return said if said.endswith((".", "!", "?")) else f"{said}."


def _asked(decision: Decision) -> str:
    """Returns the approximate text that the model reads; each server words it differently."""
    questions = (question.instructions for question in decision.questions)
    return "\n\n".join((decision.state, *questions))


def _describe(model: RemoteModel, title: str, count: functools.partial[int], *, decides: bool) -> LoadedModel:
    longest = min(LONGEST_ANSWER, max(1, model.context // 2) if model.context else LONGEST_ANSWER)
    able = Capabilities(
        structured=model.denoises is not True,  # vLLM takes no formats for diffusion models
        decisions=decides,
        images=model.sees is not False,
        parallel_runs=PARALLEL_RUNS,
    )
    settings = chat.settings_of(model)
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
        count_tokens=count,
        encode=_no_tokens,
        prompt_ids=_no_tokens,
        fingerprint="",
        context=model.context,
        kernels="vLLM" if model.kind == "vllm" else "",
        device_reason=Sentence("on the server {where}", where=model.address.origin),
        capabilities=able,
        traits=TRAITS,
        decoders=("autoregressive",) if "sampling_temperature" in settings else (),
        settings=settings,
    )


def _no_tokens(_given: object) -> list[int]:
    raise SafelightError("this model's tokens are not known: it runs on a server that only sends text")


def estimate(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Estimates the number of tokens, without the network."""
    size = sum(len(str(message.get("content", "")).encode("utf-8", "replace")) for message in messages)
    size += sum(len(json.dumps(tool)) for tool in tools)
    return round(size / BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE * (len(messages) + 1) + _of_images(messages)


def count_tokens(
    calls: Calls,
    kind: ServerKind,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    check: Check = no_check,
) -> int:
    """Returns the number of tokens by vLLM; an estimate for images, other servers, and without an answer."""
    if kind != "vllm":
        return estimate(messages, tools)
    body: dict[str, Any] = {
        "model": calls.address.model,
        "messages": [chat.plain_message(with_images(message, ()), {}) for message in messages],
        "add_generation_prompt": True,
    }
    if tools:
        body["tools"] = [dict(tool) for tool in tools]
    try:
        raw = calls.json(calls.address.root + "/tokenize", body, check)
    except RemoteError:
        return estimate(messages, tools)
    found = count_of(raw, "count")
    return estimate(messages, tools) if found is None else found + _of_images(messages)


def _of_images(messages: Sequence[Message]) -> int:
    return TOKENS_PER_IMAGE * sum(len(message.get("images", ())) for message in messages)
