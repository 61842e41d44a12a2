"""Ollama's routes, for tools that know no others: a chat or a completion, streamed as a JSON text a line."""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server.answer import ServedAnswer
from engine.server.bodies import checked, large_body, read_body
from engine.server.chat import plan_chat
from engine.server.completions import plan_completions
from engine.server.context import ServerContext
from engine.server.errors import ApiError, unsupported
from engine.server.info import time_text
from engine.server.messages import arguments_in
from engine.server.planning import RunPlan
from engine.server.schemas import UNUSED_SAMPLING, AnySeed, ChatRequest, ChatTool, CompletionRequest, Stop
from engine.server.serving import AnswerWriter, Choice, RunResponse
from engine.server.strict import RequestBody, Strict
from engine.service import LoadedModel
from engine.text.output_parts import ContentPart, OutputPart, ThoughtPart, ToolCallPart, joined_text

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
        fields: dict[str, Any] = {name: getattr(options, name) for name in _AS_IN_CHATS.split()}
        return fields | {
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
    messages: list[dict[str, Any]] = []
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
        messages.append(one)
    return messages


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


VERSION = "0.12.0"  # of Ollama, whose routes these are
LINES = "application/x-ndjson"


def error_body(error: ApiError) -> dict[str, Any]:
    """Writes a refusal in Ollama's format."""
    return {"error": error.message}


def routes(context: ServerContext) -> list[Route]:
    async def chat(request: Request) -> RunResponse | Response:
        async with large_body(request, context, OllamaChat) as body:
            if not body.messages:
                return _loaded(context, body, {"message": {"role": "assistant", "content": ""}})
            plan = await asyncio.to_thread(_plan, context, body)
        return RunResponse(context, (plan,), ChatLines(plan), "/api/chat", is_streamed=body.stream is not False)

    async def generate(request: Request) -> RunResponse | Response:
        async with large_body(request, context, OllamaGenerate) as body:
            if not body.prompt and not body.images:
                return _loaded(context, body, {"response": ""})
            plan = await asyncio.to_thread(_plan, context, body)
        writer = GenerateLines(plan)
        return RunResponse(context, (plan,), writer, "/api/generate", is_streamed=body.stream is not False)

    async def show(request: Request) -> Response:
        body = await read_body(request, context, ModelRequest)
        model, _ = context.pick(body.chosen)
        return JSONResponse(_shown(model))

    async def tags(_request: Request) -> Response:
        model = context.scheduler.model
        models = () if model is None else (model, *model.parts)
        listed = [
            {
                "name": one.name,
                "model": one.name,
                "modified_at": time_text(context.started),
                "expires_at": time_text(2**33),
                "size": 0,
                "size_vram": 0,
                "digest": one.fingerprint,
                "details": _details(one),
                "context_length": one.context,
            }
            for one in models
        ]
        return JSONResponse({"models": listed})

    async def version(_request: Request) -> Response:
        return JSONResponse({"version": VERSION})

    return [
        Route("/api/chat", chat, methods=["POST"]),
        Route("/api/generate", generate, methods=["POST"]),
        Route("/api/show", show, methods=["POST"]),
        Route("/api/tags", tags),
        Route("/api/ps", tags),
        Route("/api/version", version),
    ]


def _plan(context: ServerContext, body: OllamaChat | OllamaGenerate) -> RunPlan:
    if isinstance(body, OllamaGenerate) and (body.raw or body.suffix):
        [plan] = plan_completions(context, completion_of(body))
        return plan
    return plan_chat(context, chat_of(body))


def _loaded(context: ServerContext, body: AnswerRequest, empty: dict[str, Any]) -> Response:
    """Answers a request without a prompt, by which clients load a model."""
    model, _ = context.pick(body.chosen)
    return JSONResponse(_head(model.name) | empty | {"done": True, "done_reason": "load"})


class LineWriter(AnswerWriter):
    """Writes an answer as JSON texts, one a line; each method returns the next of them."""

    content_type = LINES
    alive = b""  # there is no line that says nothing

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan

    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterator[bytes]:
        for part in parts:
            yield self._line(self._fields([part]) | (_logprobs_of(answer) if isinstance(part, ContentPart) else {}))

    def end(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        [answer] = answers
        yield self._line(self._fields([]) | _figures(answer))

    def fail(self, error: ApiError) -> Iterator[bytes]:
        yield json.dumps(error_body(error)).encode() + b"\n"

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        [(parts, answer)] = choices
        return _head(self._plan.name) | self._fields(parts) | _logprobs_of(answer) | _figures(answer)

    def _line(self, fields: dict[str, Any]) -> bytes:
        line = _head(self._plan.name) | {"done": False} | fields
        return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    @abstractmethod
    def _fields(self, parts: Sequence[OutputPart]) -> dict[str, Any]:
        """Returns the fields of an answer that has these parts, or of a line that adds them."""


class ChatLines(LineWriter):
    """The answers of ``/api/chat``."""

    def _fields(self, parts: Sequence[OutputPart]) -> dict[str, Any]:
        calls = [
            {"function": {"name": part.name, "arguments": arguments_in(part.arguments) or {}}}
            for part in parts
            if isinstance(part, ToolCallPart)
        ]
        message = {"role": "assistant", "content": joined_text(parts, ContentPart), **_thinking(parts)}
        return {"message": message | ({"tool_calls": calls} if calls else {})}


class GenerateLines(LineWriter):
    """The answers of ``/api/generate``, which have no calls."""

    def _fields(self, parts: Sequence[OutputPart]) -> dict[str, Any]:
        return {"response": joined_text(parts, ContentPart), **_thinking(parts)}


def _thinking(parts: Sequence[OutputPart]) -> dict[str, str]:
    thinking = joined_text(parts, ThoughtPart)
    return {"thinking": thinking} if thinking else {}


def _head(model: str) -> dict[str, Any]:
    """Returns the first fields of every answer."""
    return {"model": model, "created_at": time_text(time.time())}


def _logprobs_of(answer: ServedAnswer) -> dict[str, Any]:
    chances = [chance.as_chat() for chance in answer.take_chances()]
    return {"logprobs": chances} if chances else {}


def _figures(answer: ServedAnswer) -> dict[str, Any]:
    """Returns the end of an answer; times are in nanoseconds."""
    prompt, written = (int(1e9 * seconds) for seconds in (answer.prompt_seconds, answer.seconds))
    return {
        "done": True,
        "done_reason": "length" if answer.finish_reason == "length" else "stop",
        "total_duration": prompt + written,
        "load_duration": 0,
        "prompt_eval_count": answer.prompt_tokens,
        "prompt_eval_duration": prompt,
        "eval_count": len(answer.tokens),
        "eval_duration": written,
    }


def _details(model: LoadedModel) -> dict[str, Any]:
    size = model.parameter_count
    shown = f"{size / 1e9:.1f}B" if size >= 10**9 else f"{size / 1e6:.1f}M"
    return {
        "parent_model": "",
        "format": "safelight",
        "family": "safelight",
        "families": ["safelight"],
        "parameter_size": shown,
        "quantization_level": "",
    }


def _shown(model: LoadedModel) -> dict[str, Any]:
    can = model.capabilities
    able = {"completion": True, "tools": model.reads_tools, "vision": can.images, "insert": can.gaps}
    return {
        "modelfile": "",
        "parameters": "",
        "template": "{{ .Prompt }}{{ .Suffix }}" if can.gaps else "",  # Continue looks for this name
        "details": _details(model),
        "model_info": {
            "general.architecture": "safelight",
            "general.parameter_count": model.parameter_count,
            "safelight.context_length": model.context,
        },
        "capabilities": [name for name, is_able in able.items() if is_able],
    }
