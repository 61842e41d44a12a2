"""``/tokenize`` and ``/detokenize``, in vLLM's format."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server.bodies import large_body, read_body
from engine.server.context import ServerContext
from engine.server.errors import ApiError, refusing
from engine.server.images import SentImages
from engine.server.messages import read_messages, read_tools
from engine.server.planning import prompt_of
from engine.server.schemas import DetokenizeRequest, TokenizeRequest
from engine.server.strict import Ignored
from engine.service import RunRequest


def routes(context: ServerContext) -> list[Route]:
    async def tokenize(request: Request) -> Response:
        async with large_body(request, context, TokenizeRequest) as body:
            return JSONResponse(await asyncio.to_thread(_tokenize, context, body, request.state.ignored))

    async def detokenize(request: Request) -> Response:
        body = await read_body(request, context, DetokenizeRequest)
        return JSONResponse(await asyncio.to_thread(_detokenize, context, body))

    return [Route("/tokenize", tokenize, methods=["POST"]), Route("/detokenize", detokenize, methods=["POST"])]


def _tokenize(context: ServerContext, body: TokenizeRequest, ignored: Ignored) -> dict[str, Any]:
    model, _ = context.pick(body.model)
    if body.messages is not None:
        options, images = body.chat_template_kwargs, SentImages(model, context.pictures)
        messages = read_messages(body.messages, images, ignored)
        request = RunRequest(
            "chat",
            messages,
            images.budget(model.defaults),
            seed=0,
            think=bool(options and options.enable_thinking),
            tools=read_tools(body.tools or ()),
            pictures=images.pictures,
        )
        ids = prompt_of(model, request)
    elif body.add_special_tokens is False:
        with refusing("prompt"):
            ids = model.encode(body.prompt or "")
    else:
        ids = prompt_of(model, RunRequest("completion", (), model.defaults, seed=0, text=body.prompt or ""))
    texts = [model.piece(token) for token in ids] if body.return_token_strs else None
    return {"count": len(ids), "max_model_len": model.context, "tokens": ids, "token_strs": texts}


def _detokenize(context: ServerContext, body: DetokenizeRequest) -> dict[str, Any]:
    model, _ = context.pick(body.model)
    if any(token >= model.vocab_size for token in body.tokens):
        raise ApiError(400, f"The model's vocabulary ends at {model.vocab_size - 1}.", param="tokens")
    return {"prompt": model.write(body.tokens)}
