"""A chat with a server of OpenAI's kind: makes the request, and turns the answer into events of a run without steps.

Only settings that the server follows are sent. For a diffusion model vLLM refuses a seed and a temperature other than
its own (``SamplingParams._validate_diffusion``); it takes the steps of a canvas and its length. Other models get the
seed that a user set: a drawn one ends a vLLM without a card that reads a long prompt in parts. They also get
temperature, top-k, top-p and the bound of a thought, unless these are neutral; neutral ones leave the choice to the
server. The length of the answer is always sent.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from engine.config import GenerationConfig
from engine.errors import SafelightError, quoted
from engine.events import Event, GenerationFinished, PrefillFinished, TextArrived
from engine.files import parse_json, storable
from engine.pictures import Picture, data_url
from engine.service.remote import problems
from engine.service.remote.address import RemoteAddress
from engine.service.remote.calls import Calls, Check, count_of, field_of, no_check
from engine.service.remote.discovery import RemoteModel, ServerKind
from engine.service.remote.problems import WIRE_ERRORS, RemoteError
from engine.service.remote.sse import EventReader
from engine.service.remote.wire import Exchange
from engine.service.requests import RunRequest
from engine.text.message import Message, image_digests, in_parts
from engine.text.output_format import OutputFormat
from engine.text.tags import JSON_CALL, JSON_CALL_END

MOST_TEXT = 2**21  # characters of an answer, its thinking and its tool calls together
MOST_CALLS = 128  # calls of tools in one answer
MOST_SIDE = 2_048  # pixels of a picture that is sent; models look at fewer
LARGEST_SEED = 2**31 - 1  # the largest seed that every server takes
STREAM, WHOLE = "text/event-stream", "application/json"

BROKEN = ("abort", "error")  # reasons of vLLM and others for an answer that broke off
Reason = Literal["eos", "length", "cancelled"]

NEUTRAL = GenerationConfig(sampling_temperature=1.0, eos_token_ids=())
"""The settings of which nothing is sent: the server's own stand for them."""
_BUDGET = "thinking_token_budget"  # the bound of a thought, for vLLM
_SAMPLING = {
    "sampling_temperature": "temperature",
    "sampling_top_k": "top_k",
    "sampling_top_p": "top_p",
    "thinking_tokens": _BUDGET,
}
_CANVAS = {"max_denoising_steps": "diffusion_max_steps", "canvas_length": "diffusion_canvas_length"}


def settings_of(model: RemoteModel) -> frozenset[str]:
    """Returns the settings of a run that are sent to a model's server and that it follows, by their names here."""
    own = {"max_new_tokens"}
    if model.kind == "vllm" and model.denoises is not False:
        own |= set(_CANVAS)
    if model.kind != "vllm" or model.denoises is not None:
        own |= {"sampling_top_k", "sampling_top_p"}
    if not model.denoises and "sampling_top_k" in own:
        own |= {"sampling_temperature", "seed"}
    if model.bounds:
        own.add("thinking_tokens")
    return frozenset(own)


def probed(model: RemoteModel, calls: Calls, check: Check = no_check) -> RemoteModel:
    """Returns a vLLM model with ``denoises`` and ``bounds`` by the server's refusals; unchanged without an answer.

    A diffusion model refuses a seed. Another one refuses to bound a thought if the server has no reasoning parser
    (``InputProcessor._validate_params``, which checks that last); else it writes one token. Uses the network.
    """
    messages = [{"role": "user", "content": "."}]
    body = {"model": calls.address.model, "messages": messages, "max_tokens": 1, "seed": 0, _BUDGET: 1}
    try:
        status, said = calls.refusal(calls.address.base + "/chat/completions", body, check)
    except RemoteError:
        return model
    why = said.decode("utf-8", "replace").lower() if status == 400 else ""
    if "diffusion" in why:
        return dataclasses.replace(model, denoises=True)
    if status == 200 or _BUDGET in why:
        return dataclasses.replace(model, denoises=False, bounds=status == 200)
    return model


def body_of(request: RunRequest, messages: tuple[Message, ...], model: RemoteModel) -> dict[str, Any]:
    """Returns the JSON body of a request. Slow if there are pictures."""
    config, kind, shown, own = request.config, model.kind, image_digests(messages), settings_of(model)
    urls = {picture.digest: url_of(picture) for picture in request.pictures if picture.digest in shown}
    body: dict[str, Any] = {
        "model": model.id,
        "messages": [plain_message(message, urls) for message in messages],
        "max_tokens": min(config.max_new_tokens, model.context or config.max_new_tokens),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if kind == "vllm":
        body["stream_options"]["continuous_usage_stats"] = True
        body["chat_template_kwargs"] = {"enable_thinking": request.think}
        if arguments := _changed(config, _CANVAS, own):
            body["vllm_xargs"] = arguments
    elif request.think:
        body["chat_template_kwargs"] = {"enable_thinking": True}
    body |= _changed(config, _SAMPLING, own)
    if "seed" in own and request.is_seed_set:
        body["seed"] = request.seed & LARGEST_SEED
    if request.tools:
        body["tools"] = [dict(tool) for tool in request.tools]
    if request.output_format is not None:
        body |= _format_fields(request.output_format, kind, body.get("tools", ()))
    return body


def _format_fields(asked: OutputFormat, kind: ServerKind, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the fields that request an answer in a format; ``tools`` are those that the model is offered.

    Raises:
        RemoteError: servers of its kind do not take such a format.
    """
    match asked.kind:
        case "json_schema":
            named = {"name": "answer", "schema": dict(asked.schema or {}), "strict": True}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "text_or_calls":
            return {}  # the tools are offered as they are
        case "tool_calls":
            wanted = [tool["name"] for tool in asked.tools]
            offered = [tool for tool in tools if tool["function"]["name"] in wanted]
            functions = [{"type": "function", "function": dict(tool)} for tool in asked.tools]
            return {"tools": offered or functions, "tool_choice": "required"}
    if kind != "vllm":
        raise RemoteError("This server only supports JSON as a format, not a pattern or choices.")
    is_pattern = asked.kind == "regex"
    return {"structured_outputs": {"regex": asked.pattern} if is_pattern else {"choice": list(asked.choices)}}


def _changed(config: GenerationConfig, names: Mapping[str, str], own: frozenset[str]) -> dict[str, Any]:
    """Returns the settings among ``own`` that are not neutral, by the server's ``names`` for them."""
    given = {name: getattr(config, name) for name in names if name in own}
    return {names[name]: value for name, value in given.items() if value != getattr(NEUTRAL, name)}


def url_of(picture: Picture) -> str:
    """Returns a picture as a URL that any server takes: some read no WebP, and some turn no picture upright."""
    return data_url(picture, MOST_SIDE, is_exact=True)


def plain_message(message: Message, urls: Mapping[str, str]) -> dict[str, Any]:
    """Returns a message as it is sent: images as their URLs, by their digests, and arguments of tool calls as text."""
    sent = dict(in_parts(message))
    if isinstance(parts := sent["content"], list):
        images = iter([{"url": urls[image["digest"]]} for image in message["images"]])
        sent["content"] = [
            {"type": "image_url", "image_url": next(images)} if part["type"] == "image" else part for part in parts
        ]
    if calls := sent.get("tool_calls"):
        sent["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _written(call["function"].get("arguments"))}}
            for call in calls
        ]
    return sent


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {})


class ChatReader:
    """Turns the chunks of an answer into events. The last is ``GenerationFinished``.

    Calls of tools come at the end, as text: of tools that were offered, as ``engine.text.output`` reads calls.
    """

    def __init__(self, address: RemoteAddress, *, offers_tools: bool = False) -> None:
        self._address, self._offers_tools = address, offers_tools
        self._asked = self.heard = time.monotonic()  # ``heard``: when the server last sent anything
        self._begun: float | None = None  # when the first text came
        self._reason: Reason | None = None
        self._length = 0  # characters
        self._counted = self._reported = 0  # tokens, and the part of them in events
        self._prompt: tuple[int, int] | None = None  # tokens of the prompt, and the cached part of them
        self._is_done = self._is_filtered = False
        self._calls: dict[int, list[str]] = {}  # number of a call -> the tool's name and its arguments
        self._strange_call = ""  # the name of a tool whose arguments are no object

    def read(self, answer: Exchange) -> Iterator[Event]:
        """Yields the events of an answer as they come.

        Raises:
            RemoteError: the answer is none, or breaks off.
        """
        kind = answer.headers.get("Content-Type", "").split(";")[0].strip().lower()
        if kind == WHOLE:  # a server that does not stream
            yield from self._whole(answer)
        elif kind == STREAM:
            yield from self._stream(answer)
        else:
            raise problems.strange(self._address)
        if self._reason is None:
            raise problems.broken_off()
        yield from self._rest()
        yield from self._prefill()
        seconds = 0.0 if self._begun is None else time.monotonic() - self._begun
        yield GenerationFinished(self._reason, np.zeros(0, dtype=np.int32), 0, 0, seconds)
        if self._is_filtered:
            raise RemoteError("The server's filter ended the answer.")
        if self._strange_call:
            raise RemoteError(
                "The server's call of {name} cannot be used: its arguments are not a JSON object. Try again, or use a "
                "model that was trained to call tools.",
                name=quoted(self._strange_call),
            )

    def _stream(self, answer: Exchange) -> Iterator[Event]:
        reader = EventReader()
        try:
            for piece in answer.pieces():
                self.heard = time.monotonic()
                for data in reader.feed(piece):
                    yield from self._data(data)
                    if self._is_done:
                        return
        except WIRE_ERRORS as error:
            raise problems.in_the_midst(error, self._address) from error
        for data in reader.finish():
            yield from self._data(data)

    def _whole(self, answer: Exchange) -> Iterator[Event]:
        try:
            body = answer.whole(8 * MOST_TEXT)
        except WIRE_ERRORS as error:
            raise problems.in_the_midst(error, self._address) from error
        if body is None:
            raise problems.strange(self._address)
        yield from self._data(body.decode("utf-8", "replace"))

    def _data(self, data: str) -> Iterator[Event]:
        """Yields the events of one chunk."""
        if data.strip() == "[DONE]":
            self._is_done = True
            return
        try:
            raw = parse_json(data, "a part of the answer", surrogates=True)
        except SafelightError:
            raw = None
        if not isinstance(raw, dict):
            raise RemoteError(
                "The server at {where} sends unreadable data. The text so far is kept.", where=self._address.origin
            )
        error = raw if raw.get("object") == "error" else raw.get("error")
        if error:
            raise problems.ended(problems.said_by(error), self._address)
        self._usage(raw.get("usage"))
        choices = raw.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            yield from self._choice(choices[0])

    def _choice(self, raw: dict[str, Any]) -> Iterator[Event]:
        delta = raw.get("delta") if isinstance(raw.get("delta"), dict) else raw.get("message")
        if isinstance(delta, dict):
            # Some servers use the one name, some the other, some both.
            yield from self._text(delta.get("reasoning") or delta.get("reasoning_content"), is_thought=True)
            yield from self._text(delta.get("content"), is_thought=False)
            self._note_calls(delta.get("tool_calls"))
        reason = raw.get("finish_reason")
        if reason in BROKEN:
            raise problems.broken_off()
        if isinstance(reason, str):
            self._reason = "length" if reason == "length" else "eos"
            self._is_filtered = reason == "content_filter"

    def _text(self, text: Any, *, is_thought: bool) -> Iterator[Event]:
        if not isinstance(text, str) or not text:
            return
        self._grow(len(text))
        if self._begun is None:
            self._begun = time.monotonic()
        yield TextArrived(storable(text), is_thought, self._newly_counted())

    def _grow(self, characters: int) -> None:
        self._length += characters
        if self._length > MOST_TEXT:
            raise RemoteError(
                "The answer is longer than {count} characters, the most that is accepted.", count=MOST_TEXT
            )

    def _usage(self, raw: Any) -> None:
        """Stores the token counts so far. vLLM sends the cached tokens only with the last of them."""
        prompt, written = count_of(raw, "prompt_tokens"), count_of(raw, "completion_tokens")
        self._counted = max(self._counted, written or 0)
        if prompt is not None:
            self._prompt = prompt, count_of(raw, "prompt_tokens_details", "cached_tokens", most=prompt) or 0

    def _prefill(self) -> Iterator[Event]:
        if self._prompt is not None:
            yield PrefillFinished(*self._prompt, (self._begun or time.monotonic()) - self._asked)

    def _newly_counted(self) -> int:
        """Returns the number of tokens since the event before."""
        new, self._reported = self._counted - self._reported, self._counted
        return new

    def _note_calls(self, raw: Any) -> None:
        for place, call in enumerate(raw if isinstance(raw, list) else ()):
            function = field_of(call, "function")
            if not isinstance(function, dict):
                continue
            number = call.get("index") if type(call.get("index")) is int else place
            known = self._calls.setdefault(number, ["", ""])
            for at, name in enumerate(("name", "arguments")):
                part = function.get(name)
                if isinstance(part, str):
                    self._grow(len(part))
                    known[at] += part
            if len(self._calls) > MOST_CALLS:
                raise RemoteError("The answer calls more tools than {count}.", count=MOST_CALLS)

    def _rest(self) -> Iterator[Event]:
        """Yields the calls of tools, as text, and the tokens that came without text."""
        for name, arguments in self._calls.values():
            is_whole = _is_object(arguments)
            if not is_whole:
                self._strange_call = name
            written = f"\n```\n{name}({arguments})\n```\n"
            if is_whole and self._offers_tools:
                call = f'{{"name": {json.dumps(name)}, "arguments": {arguments.strip() or "{}"}}}'
                written = f"\n{JSON_CALL}\n{call}\n{JSON_CALL_END}"
            yield TextArrived(storable(written), False, self._newly_counted())
        if self._counted > self._reported:
            yield TextArrived("", False, self._newly_counted())


def _is_object(arguments: str) -> bool:
    """True if a call's arguments are a JSON object; an empty text stands for an empty object."""
    try:
        return not arguments.strip() or isinstance(parse_json(arguments, "the arguments", surrogates=True), dict)
    except SafelightError:
        return False
