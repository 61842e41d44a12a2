"""Server-sent events: one chunk of JSON an event, comments while nothing is new."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.types import Send

DONE = "[DONE]"
EVENTS = "text/event-stream; charset=utf-8"
ALIVE = b": developing\n\n"


def event(data: dict[str, Any] | str, name: str | None = None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {text}\n\n".encode("utf-8", "replace")


async def send_stream(parts: AsyncGenerator[bytes, None], send: Send, kind: str = EVENTS) -> None:
    """Sends the parts of a stream as they arrive; to a client that has left, nothing is sent."""
    headers = [(b"content-type", kind.encode()), (b"x-accel-buffering", b"no")]
    async with aclosing(parts):
        part = await anext(parts)  # a run that cannot begin is refused with its own status
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": part, "more_body": True})
        async for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
