"""A chat with a server of OpenAI's kind: makes the request, and turns the answer into events of a run without steps.

Settings are sent where the user changed them: neutral ones, and a seed that was drawn, leave the choice to the server,
which may refuse what it does not follow. The length of the answer is always sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from engine.config import GenerationConfig
from engine.errors import SafelightError, quoted
from engine.events import Event, GenerationFinished, PrefillFinished, TextArrived
from engine.exchange import Exchange
from engine.files import parse_json, storable
from engine.pictures import Picture, data_url
from engine.service.remote import problems
from engine.service.remote.address import RemoteAddress
from engine.service.remote.calls import RemoteModel, count_of, field_of
from engine.service.remote.problems import WIRE_ERRORS, RemoteError
from engine.service.requests import ChatRun
from engine.text.message import Message, image_digests, in_parts
from engine.text.output_format import OutputFormat
from engine.text.tags import JSON_CALL, JSON_CALL_END

LONGEST_LINE = 2**22  # bytes; also of the data of one event
MAX_STREAM_BYTES = 2**28  # of a whole stream


class EventReader:
    """Takes pieces of any size; lines end with LF, CR LF or CR."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._held = self._read = 0  # bytes of ``_data``, and of all

    def feed(self, piece: bytes) -> list[str]:
        """Returns the data of each event that is complete now, in order.

        Raises:
            RemoteError: a line never ends, or the stream does not.
        """
        self._read += len(piece)
        events: list[str] = []
        searched = len(self._rest)
        self._rest += piece
        if self._rest.find(b"\n", searched) < 0 and self._rest.find(b"\r", searched) < 0:
            self._check()
            return events
        lines = self._rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        has_carriage = self._rest.endswith(b"\r")  # its line feed may be in the next piece
        self._rest = bytearray(lines.pop())
        if has_carriage:
            self._rest = bytearray(lines.pop() + b"\r")
        for line in lines:
            if not line:
                events += self._event()
            elif line.startswith(b"data:"):
                self._data.append(bytes(line[5:].removeprefix(b" ")))
                self._held += len(line)
                self._check()
        self._check()
        return events

    def finish(self) -> list[str]:
        """Returns the data behind the last empty line, at the end of the stream."""
        return [*self.feed(b"\n\n"), *self._event()]

    def _event(self) -> list[str]:
        if not self._data:
            return []
        whole = b"\n".join(self._data).decode("utf-8", "replace")
        self._data, self._held = [], 0
        return [whole]

    def _check(self) -> None:
        if len(self._rest) > LONGEST_LINE or self._held > LONGEST_LINE or self._read > MAX_STREAM_BYTES:
            raise RemoteError("The server sends an endless line. The text so far is kept.")


MAX_ANSWER_CHARACTERS = 2**21  # characters of an answer, its thinking and its tool calls together
MAX_CALLS = 128  # calls of tools in one answer
MAX_SIDE = 2_048  # pixels of a picture that is sent; models look at fewer
LARGEST_SEED = 2**31 - 1  # the largest seed that every server takes
STREAM, WHOLE = "text/event-stream", "application/json"

BROKEN = ("abort", "error")  # reasons of vLLM and others for an answer that broke off
Reason = Literal["eos", "length", "cancelled"]

NEUTRAL = GenerationConfig(sampling_temperature=1.0, eos_token_ids=())
"""The settings of which nothing is sent: the server's own stand for them."""
_SAMPLING = {"sampling_temperature": "temperature", "sampling_top_k": "top_k", "sampling_top_p": "top_p"}
SETTINGS = frozenset((*_SAMPLING, "max_new_tokens", "seed"))
"""The settings of a run that are sent, by their names here."""


def body_of(request: ChatRun, messages: tuple[Message, ...], model: RemoteModel) -> dict[str, Any]:
    """Returns the JSON body of a request. Slow if there are pictures."""
    config, shown, is_vllm = request.config, image_digests(messages), model.kind == "vllm"
    urls = {picture.digest: url_of(picture) for picture in request.pictures if picture.digest in shown}
    body: dict[str, Any] = {
        "model": model.id,
        "messages": [plain_message(message, urls) for message in messages],
        "max_tokens": min(config.max_new_tokens, model.context or config.max_new_tokens),
        "stream": True,
        "stream_options": {"include_usage": True} | ({"continuous_usage_stats": True} if is_vllm else {}),
    }
    if is_vllm or request.think:
        body["chat_template_kwargs"] = {"enable_thinking": request.think}
    for name, theirs in _SAMPLING.items():
        if getattr(config, name) != getattr(NEUTRAL, name):
            body[theirs] = getattr(config, name)
    if request.is_seed_set:
        body["seed"] = request.seed & LARGEST_SEED
    if request.tools:
        body["tools"] = [dict(tool) for tool in request.tools]
    if request.output_format is not None:
        body |= _format_fields(request.output_format, body.get("tools", ()))
    return body


def _format_fields(asked: OutputFormat, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the fields that request an answer in a format; ``tools`` are those that the model is offered.

    Raises:
        RemoteError: servers do not take such a format.
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
            names = [tool["name"] for tool in asked.tools]
            offered = [tool for tool in tools if tool["function"]["name"] in names]
            functions = [{"type": "function", "function": dict(tool)} for tool in asked.tools]
            return {"tools": offered or functions, "tool_choice": "required"}
    raise RemoteError("This server only supports JSON as a format, not a pattern or choices.")


def url_of(picture: Picture) -> str:
    """Returns a picture as a URL that any server takes: some read no WebP, and some turn no picture upright."""
    return data_url(picture, MAX_SIDE, is_exact=True)


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
        self._asked = time.monotonic()
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
        try:
            # A server that does not stream sends the whole answer.
            if kind == WHOLE and (body := answer.whole(8 * MAX_ANSWER_CHARACTERS)) is not None:
                yield from self._data(body.decode("utf-8", "replace"))
            elif kind == STREAM:
                yield from self._stream(answer)
            else:
                raise problems.strange(self._address)
        except WIRE_ERRORS as error:
            raise problems.in_the_midst(error, self._address) from error
        if self._reason is None:
            raise problems.broken_off()
        yield from self._rest()
        if self._prompt is not None:
            yield PrefillFinished(*self._prompt, (self._begun or time.monotonic()) - self._asked)
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
        for piece in answer.pieces():
            for data in reader.feed(piece):
                yield from self._data(data)
                if self._is_done:
                    return
        for data in reader.finish():
            yield from self._data(data)

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
        if self._length > MAX_ANSWER_CHARACTERS:
            raise RemoteError(
                "The answer is longer than {count} characters, the most that is accepted.", count=MAX_ANSWER_CHARACTERS
            )

    def _usage(self, raw: Any) -> None:
        """Stores the token counts so far. vLLM sends the cached tokens only with the last of them."""
        prompt, written = count_of(raw, "prompt_tokens"), count_of(raw, "completion_tokens")
        self._counted = max(self._counted, written or 0)
        if prompt is not None:
            self._prompt = prompt, count_of(raw, "prompt_tokens_details", "cached_tokens", most=prompt) or 0

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
            if len(self._calls) > MAX_CALLS:
                raise RemoteError("The answer calls more tools than {count}.", count=MAX_CALLS)

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
