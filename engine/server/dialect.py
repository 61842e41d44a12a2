"""``/safelight/v1``: requests of another Safelight beyond OpenAI's API, in the form of ``engine.service.wire``."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from engine.catalog import resolve
from engine.declared import many, read
from engine.errors import SafelightError
from engine.events import CanvasCommitted, Event, TextArrived
from engine.files import read_bytes
from engine.pictures import MAX_BYTES
from engine.server.bodies import JSON_VALUES, read_file, read_object
from engine.server.context import ServerContext, adapters_of
from engine.server.errors import ApiError, refusing, unsupported
from engine.server.runs import ServedRun, client_of
from engine.server.serving import send_stream
from engine.service import LoadedModel, RunAdvanced, RunEnded, RunRequest
from engine.service.requests import MAX_TOOLS, DecisionRun
from engine.service.small import prepared
from engine.service.wire import (
    CONTENT_TYPE,
    IDLE,
    Digests,
    ReplyWriter,
    check_conversation,
    model_to_json,
    request_from_json,
)
from engine.text.vocabulary_files import FILE_BYTES
from engine.trace.format import MAX_HEADER, MAX_HEADER_VALUES
from engine.trace.header import Messages

PREFIX = "/safelight/v1"
BODY_BYTES = 2 * MAX_HEADER  # a long prompt as tokens takes more than other requests may


@dataclasses.dataclass(frozen=True)
class _Counted:
    messages: Messages
    tools: Annotated[tuple[Mapping[str, Any], ...], many(MAX_TOOLS)] = ()


@dataclasses.dataclass(frozen=True)
class _Missing:
    digests: Digests


def routes(context: ServerContext) -> list[Route]:
    def named(request: Request) -> LoadedModel:
        """Returns the model that a request names, which an older client does not."""
        return context.pick(request.query_params.get("model"))[0]

    async def model(request: Request) -> Response:
        return JSONResponse(model_to_json(_as_served(named(request))))

    async def tokenizer(request: Request) -> Response:
        return await asyncio.to_thread(_tokenizer, named(request))

    async def count(request: Request) -> Response:
        raw = await read_object(request, context, BODY_BYTES, MAX_HEADER_VALUES)
        return JSONResponse({"tokens": await asyncio.to_thread(_count, named(request), raw)})

    async def missing(request: Request) -> Response:
        raw = await read_object(request, context, context.options.body_bytes, JSON_VALUES)
        return JSONResponse({"missing": _missing(context, raw)})

    async def picture(request: Request) -> Response:
        async with read_file(request, context, MAX_BYTES) as data:
            return JSONResponse({"digest": await asyncio.to_thread(_store, context, data)})

    async def run(request: Request) -> ReplyStream:
        raw = await read_object(request, context, BODY_BYTES, MAX_HEADER_VALUES)
        model = named(request)
        read = await asyncio.to_thread(_read_request, context, model, raw)
        return ReplyStream(context, f"{PREFIX}/run", model.name, read)

    return [
        Route(f"{PREFIX}/model", model),
        Route(f"{PREFIX}/tokenizer", tokenizer),
        Route(f"{PREFIX}/tokens/count", count, methods=["POST"]),
        Route(f"{PREFIX}/pictures/missing", missing, methods=["POST"]),
        Route(f"{PREFIX}/pictures", picture, methods=["POST"]),
        Route(f"{PREFIX}/run", run, methods=["POST"]),
    ]


def _as_served(model: LoadedModel) -> LoadedModel:
    """Returns the model as others see it: what is measured and chosen here alone, and its adapter without the path."""
    adapter = None if model.adapter is None else Path(model.adapter).name
    able = dataclasses.replace(model.capabilities, adapters=False, forks=False, infill=False, influence=False)
    return dataclasses.replace(model, adapter=adapter, capabilities=able)


def _tokenizer(model: LoadedModel) -> Response:
    try:
        data = read_bytes(resolve(model.path_or_id) / "tokenizer.json", FILE_BYTES)
    except (SafelightError, OSError):
        raise ApiError(404, "The tokenizer of this model is not available here.") from None
    return Response(data, media_type="application/json")


def _count(model: LoadedModel, raw: object) -> int:
    with refusing("messages"):
        asked = read(_Counted, raw, "the body", is_strict=True)
        check_conversation(asked.messages)
        return model.count_tokens(asked.messages, asked.tools)


def _missing(context: ServerContext, raw: object) -> list[str]:
    """Returns the digests whose pictures are missing."""
    with refusing("digests"):
        asked = read(_Missing, raw, "the body", is_strict=True)
    return [digest for digest in dict.fromkeys(asked.digests) if context.pictures.find(digest) is None]


def _store(context: ServerContext, data: bytes) -> str:
    """Stores a picture, and returns its digest."""
    if not context.model.capabilities.images:
        raise unsupported(f"The model {context.model.name} cannot see images.")
    with refusing():
        return context.pictures.open(data).digest


def _read_request(context: ServerContext, model: LoadedModel, raw: object) -> RunRequest:
    with refusing(code="invalid_value"):
        request = request_from_json(raw, context.pictures.find)
    if isinstance(request, DecisionRun) and not model.capabilities.decisions:
        raise unsupported("This model cannot decide.")
    adapter = request.adapter
    if adapter and model.adapter and adapter == Path(model.adapter).name:
        adapter = None  # it is loaded already
    elif adapter and adapter not in adapters_of(model):
        raise ApiError(400, "That adapter is not on the server; leave it out, or send an empty text.", param="adapter")
    with refusing("messages"):
        return prepared(model, dataclasses.replace(request, adapter=adapter, keep=False))[1]


class ReplyStream:
    """An ASGI application that runs a request and sends its replies."""

    def __init__(self, context: ServerContext, endpoint: str, model: str, request: RunRequest) -> None:
        self._context, self._endpoint, self._model, self._request = context, endpoint, model, request
        self._writer = ReplyWriter()
        self._tokens = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        requests, client = (self._request,), client_of(scope)
        served = ServedRun(self._context, requests, self._endpoint, self._model, client=client, receive=receive)
        async with served as run:
            await send_stream(self._parts(run), send, CONTENT_TYPE)

    async def _parts(self, run: ServedRun) -> AsyncGenerator[bytes, None]:
        is_begun, message = False, ""
        try:
            async for reply in run.replies(self._context.options.comment_seconds):
                is_begun = True
                if isinstance(reply, RunAdvanced):
                    self._count(reply.event)
                    run.note_tokens(self._tokens)
                yield IDLE if reply is None else self._writer.write(reply)
        except ApiError as error:
            if not is_begun:
                raise
            message = error.message
        yield self._writer.write(RunEnded(self._request.run_id, message))

    def _count(self, event: Event) -> None:
        if isinstance(event, CanvasCommitted):
            self._tokens += event.text_length
        elif isinstance(event, TextArrived):
            self._tokens += event.counted
