"""Streams a run's replies in the format of ``engine.service.wire.stream``."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.types import Receive, Scope, Send

from engine.events import CanvasCommitted, Event, PrefillFinished, StepFinished, TextArrived
from engine.server.context import ServerContext
from engine.server.runs import ServedRun
from engine.server.sse import joined, send_stream
from engine.service import RunAdvanced, RunEnded, RunRequest
from engine.service.wire.stream import CONTENT_TYPE, IDLE, ReplyWriter


class ReplyStream:
    """An ASGI application that runs a request and sends its replies."""

    def __init__(self, context: ServerContext, endpoint: str, request: RunRequest) -> None:
        self._context, self._endpoint, self._request = context, endpoint, request
        self._writer = ReplyWriter()
        self._marked = frozenset(mark.block for mark in request.marks)
        self._tokens = 0

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        async with ServedRun(self._context, (self._request,), self._endpoint, self._context.model.name) as run:
            run.watch(receive)
            parts = self._parts(run)
            first = await anext(parts)  # a run that cannot begin is refused with its own status
            await send_stream(joined(first, parts), send, CONTENT_TYPE)

    async def _parts(self, run: ServedRun) -> AsyncIterator[bytes]:
        is_begun = False
        async for reply in run.replies(self._context.options.comment_seconds):
            is_begun = True
            if reply is None:
                yield IDLE
            elif not isinstance(reply, RunAdvanced):
                yield self._writer.write(reply)
            elif self._is_wanted(reply.event):
                self._count(reply.event)
                run.note_tokens(self._tokens)
                yield self._writer.write(reply)
        if run.failure is not None and not is_begun:
            raise run.failure
        message = "" if run.failure is None else run.failure.message
        yield self._writer.write(RunEnded(self._request.run_id, message))

    def _is_wanted(self, event: Event) -> bool:
        """Returns True if the client needs an event: it has the blocks of an infill that were not marked."""
        block = getattr(event, "block_index", None)
        return not self._marked or block is None or block in self._marked

    def _count(self, event: Event) -> None:
        add = self._context.metrics.add
        match event:
            case PrefillFinished():
                add("prompt_tokens_total", event.prompt_tokens)
                add("cached_tokens_total", event.reused_tokens)
            case StepFinished():
                add("denoising_steps_total")
                add("canvas_positions_total", len(event.argmax_canvas))
            case CanvasCommitted():
                add("generated_tokens_total", event.text_length)
                self._tokens += event.text_length
            case TextArrived():
                add("generated_tokens_total", event.counted)
                self._tokens += event.counted
