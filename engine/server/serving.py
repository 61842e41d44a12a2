"""A run as an HTTP response, at once or as a stream. A writer defines its format."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from engine.events import CanvasCommitted, Event
from engine.server.answer import ServedAnswer
from engine.server.context import ServerContext
from engine.server.errors import ApiError, other_model
from engine.server.frames import CanvasFrames
from engine.server.planning import RunPlan
from engine.server.runs import ServedRun
from engine.server.sse import send_stream
from engine.service import RunAdvanced
from engine.text.output_parts import OutputPart, joined


class AnswerWriter(Protocol):
    """Writes an endpoint's answers; each method returns the next bytes of a stream, except ``whole``.

    A stream has a content type, and bytes that say that the answer is being written while nothing is new.
    """

    @property
    def content_type(self) -> str: ...
    @property
    def alive(self) -> bytes: ...

    def begin(self) -> Iterable[bytes]: ...
    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterable[bytes]: ...
    def add_frame(self, frame: dict[str, Any]) -> Iterable[bytes]: ...
    def end(self, answer: ServedAnswer) -> Iterable[bytes]: ...
    def fail(self, error: ApiError) -> Iterable[bytes]: ...

    def whole(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> dict[str, Any]:
        """Returns the body of an answer that is not streamed."""


class RunResponse:
    """An ASGI application that runs a plan and writes its answer."""

    def __init__(
        self, context: ServerContext, plan: RunPlan, writer: AnswerWriter, endpoint: str, *, is_streamed: bool
    ) -> None:
        self._context, self._plan, self._writer = context, plan, writer
        self._endpoint, self._is_streamed = endpoint, is_streamed
        self._answer = ServedAnswer(plan.model, plan.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        plan = self._plan
        async with ServedRun(
            self._context, (plan.request,), self._endpoint, plan.name, plan.format_field, ignored=plan.ignored
        ) as run:
            run.watch(receive)
            try:
                if self._is_streamed:
                    await send_stream(self._stream(run), send, self._writer.content_type)
                else:
                    parts = [part async for _, found in self._advance(run, None) for part in found]
                    body = self._writer.whole(joined(parts), self._answer)
                    await JSONResponse(body)(scope, receive, send)
            finally:
                self._count()

    async def _advance(
        self, run: ServedRun, patience: float | None
    ) -> AsyncIterator[tuple[Event | None, list[OutputPart]]]:
        """Yields a run's events, each with the parts that it adds; None when it starts and while nothing is new."""
        async for reply in run.replies(patience):
            if not isinstance(reply, RunAdvanced):
                if reply is not None and reply.trace.header.model.fingerprint != self._plan.model.fingerprint:
                    raise other_model()
                yield None, []
                continue
            parts = self._answer.fold(reply.event)
            if isinstance(reply.event, CanvasCommitted):
                run.note_tokens(len(self._answer.tokens))
            yield reply.event, parts
            if self._answer.is_complete:
                run.succeed()
                break
        if run.failure is not None:
            raise run.failure
        yield None, self._answer.finish()

    async def _stream(self, run: ServedRun) -> AsyncGenerator[bytes, None]:
        writer, plan, is_begun = self._writer, self._plan, False
        frames = CanvasFrames(plan.model, plan.request.config.max_denoising_steps) if plan.has_frames else None
        try:
            async for event, parts in self._advance(run, self._context.options.comment_seconds):
                if not is_begun:
                    is_begun = True
                    yield b"".join(writer.begin())
                if event is None and not parts:
                    yield writer.alive
                frame = frames.fold(event) if frames is not None and event is not None else None
                if frame is not None:
                    yield b"".join(writer.add_frame(frame))
                if parts:
                    yield b"".join(writer.add(parts, self._answer))
            yield b"".join(writer.end(self._answer))
        except ApiError as error:
            if not is_begun:
                raise
            yield b"".join(writer.fail(error))

    def _count(self) -> None:
        metrics, answer = self._context.metrics, self._answer
        metrics.add("prompt_tokens_total", answer.prompt_tokens)
        metrics.add("cached_tokens_total", answer.cached_tokens)
        metrics.add("generated_tokens_total", len(answer.tokens))
        metrics.add("denoising_steps_total", answer.steps)
        metrics.add("canvas_positions_total", answer.positions)
