"""Health, models, and unsupported endpoints."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.catalog import TALK
from engine.model_files import is_gguf
from engine.server.context import ServerContext, adapters_of
from engine.server.errors import ApiError
from engine.service import LoadedModel


def routes(context: ServerContext) -> list[Route]:
    async def health(_request: Request) -> Response:
        context.model  # noqa: B018  # raises where none is ready
        return JSONResponse({"status": "ok"})

    async def models(_request: Request) -> Response:
        entries = _models(context)
        ends = {"first_id": next(iter(entries), None), "last_id": next(reversed(entries), None)}
        return JSONResponse({"object": "list", "data": list(entries.values()), "has_more": False, **ends})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        context.pick(name)
        return JSONResponse(_models(context).get(name) or next(iter(_models(context).values())))

    async def embeddings(_request: Request) -> Response:
        raise ApiError(501, "This server makes no embeddings; ask an embedding model elsewhere.")

    return [
        Route("/health", health),
        Route("/v1/health", health),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        Route("/v1/embeddings", embeddings, methods=["GET", "POST"]),
        Route("/embeddings", embeddings, methods=["GET", "POST"]),
    ]


def time_text(seconds: float) -> str:
    """Returns a time in UTC as ISO 8601 writes it; seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _is_text_only(model: LoadedModel) -> bool:
    """True if a Safelight elsewhere cannot fetch the tokenizer: of a file, or of parts, which have one each."""
    return bool(model.parts) or model.path_or_id == TALK.id or is_gguf(Path(model.path_or_id))


def _models(context: ServerContext) -> dict[str, dict[str, Any]]:
    """Returns the loaded model, and each of its parts, or it with each adapter that is known for it.

    ``type``, ``lifecycle``, ``max_input_tokens``, ``display_name`` and ``created_at`` are Anthropic's fields.
    """
    whole = context.scheduler.model
    if whole is None:
        return {}
    named = {one.name: one for one in (whole, *whole.parts)}
    named |= {f"{whole.name}:{adapter}": whole for adapter in adapters_of(whole)}
    return {
        name: {
            "id": name,
            "object": "model",
            "created": int(context.started),
            "owned_by": "Safelight, as text" if _is_text_only(model) else "safelight",
            "type": "model",
            "lifecycle": "active",
            "max_input_tokens": model.context,
            "display_name": name if name != model.name else model.title,
            "created_at": time_text(int(context.started)),
            "max_model_len": model.context,
            "canvas_length": model.canvas_length,
            "decoders": list(model.decoders),
            "images": model.capabilities.images,
            "gaps": model.capabilities.gaps,
        }
        for name, model in named.items()
    }
