"""The bodies of Ollama's routes, and their conversion to a chat or a completion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

from engine.server.bodies import checked
from engine.server.errors import ApiError, unsupported
from engine.server.schemas import UNUSED_SAMPLING, AnySeed, ChatRequest, ChatTool, CompletionRequest, Stop
from engine.server.strict import RequestBody, Strict

UNLIMITED = -2  # Ollama's for an answer that fills the context
_AS_IN_CHATS = "temperature top_p top_k min_p seed stop"


class OllamaOptions(Strict):
    """The settings of an answer; those of loading a model are passed over."""

    PLACE = "options."
    PASSED_OVER = UNUSED_SAMPLING
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: AnySeed = None
    stop: Stop | list[Stop] | None = None
    num_predict: int | None = None
    repeat_penalty: float | None = None


class ModelRequest(RequestBody):
    """A body that names a model."""

    PLACE = ""
    model: str | None = None
    name: str | None = None  # as older clients send it

    @property
    def chosen(self) -> str | None:
        """The model's name, without a tag."""
        return (self.model or self.name or "").removesuffix(":latest") or None


class AnswerRequest(ModelRequest):
    """The fields that a chat and a completion have in common."""

    UNUSED = frozenset({"keep_alive"})  # the model stays until another one is loaded
    stream: bool | None = None
    format: Literal["", "json"] | dict[str, Any] | None = None
    options: OllamaOptions | None = None
    think: bool | Literal["low", "medium", "high"] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

    def asked(self) -> dict[str, Any]:
        """Returns the fields of OpenAI's requests."""
        options = self.options or OllamaOptions()
        length = options.num_predict
        found: dict[str, Any] = {name: getattr(options, name) for name in _AS_IN_CHATS.split()}
        return found | {
            "model": self.chosen,
            "stream": self.stream is not False,
            "max_tokens": -1 if length == UNLIMITED else length,
            "repetition_penalty": options.repeat_penalty,
            "response_format": _format(self.format),
        }


class OllamaMessage(Strict):
    PLACE = "messages."
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaChat(AnswerRequest):
    """Body of ``/api/chat``."""

    messages: list[OllamaMessage]
    tools: list[ChatTool] | None = None


class OllamaGenerate(AnswerRequest):
    """Body of ``/api/generate``."""

    NEUTRAL = {  # noqa: RUF012 - declared a ClassVar in the base class
        "template": (("",), "the model's own is used"),
    }
    prompt: str | None = None
    system: str | None = None
    suffix: str | None = None
    images: list[str] | None = None
    raw: bool | None = None


def chat_of(body: OllamaChat | OllamaGenerate) -> ChatRequest:
    """Converts a request to a chat.

    Raises:
        ApiError: a value is not one of a chat, or a call has no name.
    """
    asked = body.asked() | {"messages": _messages(body), "logprobs": body.logprobs, "top_logprobs": body.top_logprobs}
    if isinstance(body, OllamaChat) and body.tools:
        asked["tools"] = [tool.model_dump(exclude_none=True) for tool in body.tools]
    if body.think is not None:
        asked["reasoning_effort"] = body.think if isinstance(body.think, str) else "medium" if body.think else "none"
    return checked(ChatRequest, asked, body.ignored)


def completion_of(body: OllamaGenerate) -> CompletionRequest:
    """Converts a request for a prompt as it is, or for the gap before a suffix.

    Raises:
        ApiError: it has images, or a value is not one of a completion.
    """
    if body.images:
        raise unsupported("Images need a chat; leave raw out.", "images")
    asked = body.asked()
    asked |= {
        "prompt": body.prompt,
        "suffix": body.suffix,
        "logprobs": (body.top_logprobs or 0) if body.logprobs else None,
    }
    asked["max_tokens"] = -1 if asked["max_tokens"] is None else asked["max_tokens"]
    return checked(CompletionRequest, asked, body.ignored)


def _format(sent: Literal["", "json"] | dict[str, Any] | None) -> dict[str, Any] | None:
    if isinstance(sent, dict):
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": sent}}
    return {"type": "json_object"} if sent else None


def _messages(body: OllamaChat | OllamaGenerate) -> list[dict[str, Any]]:
    """Returns the messages of a chat; a result is that of the call of its id, else of its name, else of the next."""
    if isinstance(body, OllamaGenerate):
        system = [{"role": "system", "content": body.system}] if body.system else []
        return [*system, _with_images("user", body.prompt or "", body.images)]
    found: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []  # calls without a result
    for place, message in enumerate(body.messages):
        one = _with_images(message.role, message.content or "", message.images)
        if message.thinking and message.role == "assistant":
            one["reasoning_content"] = message.thinking
        if message.tool_calls:
            one["tool_calls"] = [
                _call(call, f"{place}-{n}", f"messages.{place}") for n, call in enumerate(message.tool_calls)
            ]
            waiting = list(one["tool_calls"])
        if message.role == "tool":
            of_id = (call for call in waiting if call["id"] == message.tool_call_id)
            of_name = (call for call in waiting if call["function"]["name"] == message.tool_name)
            call = next(chain(of_id, of_name, waiting), None)
            one |= {"tool_call_id": "" if call is None else call["id"], "name": message.tool_name}
            waiting = [other for other in waiting if other is not call]
        found.append(one)
    return found


def _with_images(role: str, text: str, images: Sequence[str] | None) -> dict[str, Any]:
    if not images:
        return {"role": role, "content": text}
    urls = [{"url": image if image.startswith("data:") else f"data:image/png;base64,{image}"} for image in images]
    return {
        "role": role,
        "content": [{"type": "text", "text": text}, *({"type": "image_url", "image_url": url} for url in urls)],
    }


def _call(call: dict[str, Any], id: str, where: str) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ApiError(400, "A call needs its function's name.", param=f"{where}.tool_calls")
    arguments = function.get("arguments") or {}
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    id = call["id"] if isinstance(call.get("id"), str) and call["id"] else id
    return {"id": id, "type": "function", "function": {"name": function["name"], "arguments": arguments}}
