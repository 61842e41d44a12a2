"""Ollama's routes, for tools that know no others: a chat or a completion, streamed as a JSON text a line."""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server.answer import ServedAnswer
from engine.server.bodies import large_body, read_body
from engine.server.chat import plan_chat
from engine.server.completions import plan_completions
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.info import time_text
from engine.server.messages import arguments_in
from engine.server.ollama_request import (
    AnswerRequest,
    ModelRequest,
    OllamaChat,
    OllamaGenerate,
    chat_of,
    completion_of,
)
from engine.server.planning import RunPlan
from engine.server.serving import AnswerWriter, Choice, RunResponse
from engine.service import LoadedModel
from engine.text.output_parts import ContentPart, OutputPart, ThoughtPart, ToolCallPart

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
            found = await asyncio.to_thread(_plan, context, body)
        return RunResponse(context, (found,), ChatLines(found), "/api/chat", is_streamed=body.stream is not False)

    async def generate(request: Request) -> RunResponse | Response:
        async with large_body(request, context, OllamaGenerate) as body:
            if not body.prompt and not body.images:
                return _loaded(context, body, {"response": ""})
            found = await asyncio.to_thread(_plan, context, body)
        writer = GenerateLines(found)
        return RunResponse(context, (found,), writer, "/api/generate", is_streamed=body.stream is not False)

    async def show(request: Request) -> Response:
        body = await read_body(request, context, ModelRequest)
        model, _ = context.pick(body.chosen)
        return JSONResponse(_shown(model))

    async def tags(_request: Request) -> Response:
        model = context.scheduler.model
        models = () if model is None else (model, *model.parts)
        return JSONResponse({"models": [_listed(context, one) for one in models]})

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
        [found] = plan_completions(context, completion_of(body))
        return found
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
            match part:
                case ContentPart(text):
                    logprobs = [chance.as_chat() for chance in answer.take_chances()]
                    yield self._line(self._fields(text), logprobs=logprobs)
                case ThoughtPart(text):
                    yield self._line(self._fields("", thinking=text))
                case ToolCallPart(_, name, arguments):
                    function = {"name": name, "arguments": arguments_in(arguments) or {}}
                    yield self._line(self._fields("", calls=[{"function": function}]))

    def end(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        [answer] = answers
        yield self._line(self._fields(""), **_figures(answer))

    def fail(self, error: ApiError) -> Iterator[bytes]:
        yield json.dumps(error_body(error)).encode() + b"\n"

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        [(parts, answer)] = choices
        lines = [json.loads(line) for line in self.add(parts, answer)]
        return _head(self._plan.name) | self._joined(lines) | _logprobs_of(lines) | _figures(answer)

    def _line(self, fields: dict[str, Any], logprobs: list[dict[str, Any]] | None = None, **figures: Any) -> bytes:
        more = {"logprobs": logprobs} if logprobs else {}
        line = _head(self._plan.name) | fields | {"done": False} | more | figures
        return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    @abstractmethod
    def _fields(self, text: str, thinking: str = "", calls: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        """Returns the fields of a line that adds this to the answer."""

    @abstractmethod
    def _joined(self, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Returns the fields of the whole answer."""


class ChatLines(LineWriter):
    """The answers of ``/api/chat``."""

    def _fields(self, text: str, thinking: str = "", calls: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        message |= {"thinking": thinking} if thinking else {}
        return {"message": message | ({"tool_calls": list(calls)} if calls else {})}

    def _joined(self, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
        said = [line["message"] for line in lines]
        return self._fields(
            "".join(one["content"] for one in said),
            "".join(one.get("thinking", "") for one in said),
            [call for one in said for call in one.get("tool_calls", ())],
        )


class GenerateLines(LineWriter):
    """The answers of ``/api/generate``, which have no calls."""

    def _fields(self, text: str, thinking: str = "", calls: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:  # noqa: ARG002
        return {"response": text} | ({"thinking": thinking} if thinking else {})

    def _joined(self, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
        thinking = "".join(line.get("thinking", "") for line in lines)
        return self._fields("".join(line["response"] for line in lines), thinking)


def _head(model: str) -> dict[str, Any]:
    """Returns the first fields of every answer."""
    return {"model": model, "created_at": time_text(time.time())}


def _logprobs_of(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = [one for line in lines for one in line.get("logprobs", ())]
    return {"logprobs": found} if found else {}


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


def _listed(context: ServerContext, model: LoadedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": time_text(context.started),
        "expires_at": time_text(2**33),
        "size": 0,
        "size_vram": 0,
        "digest": model.fingerprint,
        "details": _details(model),
        "context_length": model.context,
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
