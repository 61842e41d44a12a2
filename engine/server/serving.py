"""Runs as an HTTP response, at once or as a stream. A writer defines its format."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from engine.events import CanvasCommitted, CanvasStarted, Event, PrefillFinished, PrefixPinned, StepFinished
from engine.server.answer import ServedAnswer
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.planning import RunPlan
from engine.server.runs import ServedRun, client_of
from engine.service import LoadedModel, PromptScored, RunAdvanced, RunStarted
from engine.text.output_parts import OutputPart, joined
from engine.trace.recording import Draft
from engine.types import Tokens

SETTLED_AFTER = 2  # steps in a row that a position must be accepted with one argmax
DIGITS = 4  # of an entropy


class CanvasFrames:
    """The canvas as it develops, for clients that ask for ``diffusion_frames``: fields of a chunk with an empty delta.

        type       "diffusion_frame".
        block      number of the canvas, from 1.
        step       number of its denoising step, from 1; 0 is the first canvas.
        total      the most steps that it may take.
        filler     the token of positions that are not written yet; null if the canvas begins as noise.
        text       the answer's text in this block as far as it is guessed.
        ids        the canvas after the step (C,), noise included.
        draft      the best guess at every position (C,).
        entropy    nats (C,).
        accepted   positions whose token was kept at this step.
        settled    accepted positions kept with one and the same best guess for two steps or more.
        remelted   positions kept at the step before and re-noised at this one, or with another token over a filler.
        pinned     positions before this one are held, as they fit the format of the answer; 0 without one.
        committed  whether the block is finished: then ``ids`` are its tokens, and those of the text are settled.
        pieces     texts of tokens that no earlier frame of this stream named, by id; empty for control tokens.

    The first five are those of Unsloth's server, and its clients show them.

    Args:
        model: the model that wrote the tokens.
        total: the most denoising steps of a canvas.
    """

    def __init__(self, model: LoadedModel, total: int) -> None:
        self._model, self._total = model, total
        self._ends = frozenset(model.defaults.eos_token_ids)
        self._named: set[int] = set()
        self._accepted: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._agreed: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._read = Draft(self._ends)  # of the running block
        self._draft = self._shown = np.zeros(0, dtype=np.int32)
        self._pinned = 0
        self._filler: int | None = None

    def fold(self, event: Event) -> dict[str, Any] | None:
        """Returns the frame of the run's next event; None if it shows nothing new."""
        match event:
            case CanvasStarted():
                length = len(event.canvas)
                self._accepted = np.zeros(length, dtype=np.bool_)
                self._agreed = np.zeros(length, dtype=np.int32)
                self._draft = np.full(length, -1, dtype=np.int32)
                self._pinned, self._filler, self._shown = 0, event.filler, event.canvas
                if event.filler is not None:
                    self._accepted = event.canvas != event.filler
                self._read = Draft.from_events((event,), self._ends)
                return self._frame(event.block_index, 0, "", event.canvas, event.canvas)
            case StepFinished():
                return self._fold_step(event)
            case PrefixPinned():  # the rest is noise again, and not taken back
                self._pinned = event.pinned
                self._accepted = np.arange(len(event.canvas)) < event.pinned
                self._agreed = np.zeros_like(self._agreed)
            case CanvasCommitted():
                text = self._model.decode(event.tokens[: event.text_length].tolist()).text
                settled = list(range(event.text_length))
                return self._frame(event.block_index, event.steps, text, event.tokens, event.tokens) | {
                    "accepted": settled,
                    "settled": settled,
                    "committed": True,
                }
        return None

    def _fold_step(self, event: StepFinished) -> dict[str, Any]:
        accepted, draft = event.accepted_mask, event.argmax_canvas
        self._agreed = np.where(accepted, np.where(self._draft == draft, self._agreed, 0) + 1, 0).astype(np.int32)
        settled = (self._agreed >= SETTLED_AFTER) & (event.candidates == draft)
        is_replaced = self._shown != event.next_canvas if self._filler is not None else np.False_
        taken_back = self._accepted & (~accepted | is_replaced)
        self._accepted, self._draft, self._shown = accepted, draft, event.next_canvas
        self._read.fold(event)
        text = self._model.decode(self._read.tokens()).text
        return self._frame(event.block_index, event.step + 1, text, event.next_canvas, draft) | {
            "entropy": [round(value, DIGITS) for value in event.entropy.tolist()],
            "accepted": np.flatnonzero(accepted).tolist(),
            "settled": np.flatnonzero(settled).tolist(),
            "remelted": np.flatnonzero(taken_back).tolist(),
        }

    def _frame(self, block: int, step: int, text: str, canvas: Tokens, draft: Tokens) -> dict[str, Any]:
        ids, guess = canvas.tolist(), draft.tolist()
        fresh = {*ids, *guess, *(() if self._filler is None else (self._filler,))} - self._named
        self._named |= fresh
        return {
            "type": "diffusion_frame",
            "block": block + 1,
            "step": step,
            "total": self._total if self._filler is None else len(ids),
            "filler": self._filler,
            "text": text,
            "ids": ids,
            "draft": guess,
            "entropy": [],
            "accepted": [],
            "settled": [],
            "remelted": [],
            "pinned": self._pinned,
            "committed": False,
            "pieces": {token: "" if self._model.is_special(token) else self._model.piece(token) for token in fresh},
        }


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


LAST = 4  # times the seconds of a plan, after which the answer is what is settled, be it nothing
LOOK_SECONDS = 0.05  # between two looks at the clock
Choice: TypeAlias = tuple[Sequence[OutputPart], ServedAnswer]
"""A whole answer: its parts, and what is known about it."""


class AnswerWriter(ABC):
    """Writes an endpoint's answers; each method returns the next bytes of a stream, except ``whole``.

    A stream has a content type, and bytes that say that the answer is being written while nothing is new.
    """

    content_type, alive = EVENTS, ALIVE

    def begin(self, answers: Sequence[ServedAnswer]) -> Iterable[bytes]:  # noqa: ARG002 - for those that begin somehow
        return ()

    @abstractmethod
    def add(self, parts: Sequence[OutputPart], answer: ServedAnswer) -> Iterable[bytes]: ...

    def add_frame(self, frame: dict[str, Any], answer: ServedAnswer) -> Iterable[bytes]:  # noqa: ARG002 - as ``begin``
        return ()

    @abstractmethod
    def end(self, answers: Sequence[ServedAnswer]) -> Iterable[bytes]: ...

    @abstractmethod
    def fail(self, error: ApiError) -> Iterable[bytes]: ...

    @abstractmethod
    def whole(self, choices: Sequence[Choice]) -> dict[str, Any] | list[dict[str, Any]]:
        """Returns the body of answers that are not streamed."""


class Answering:
    """The answers to the plans of one request, one of each, as their runs advance. Knows no HTTP."""

    def __init__(self, context: ServerContext, plans: Sequence[RunPlan]) -> None:
        self._context, self._plans = context, plans
        self._since: dict[int, float] = {}  # when the prompt of an answer was read, in seconds
        self._answers = {
            plan.request.run_id: ServedAnswer(plan.model, plan.settings, index) for index, plan in enumerate(plans)
        }

    @property
    def answers(self) -> tuple[ServedAnswer, ...]:
        return tuple(self._answers.values())

    def run(self, endpoint: str, client: str, receive: Receive | None) -> ServedRun:
        """Returns the runs, which begin once the context is entered."""
        plan, requests = self._plans[0], [plan.request for plan in self._plans]
        return ServedRun(
            self._context,
            requests,
            endpoint,
            plan.name,
            plan.format_field,
            client=client,
            receive=receive,
            fingerprint=plan.model.fingerprint,
            ignored=plan.ignored,
        )

    async def advance(
        self, run: ServedRun, patience: float | None
    ) -> AsyncIterator[tuple[ServedAnswer, Event | None, list[OutputPart]] | None]:
        """Yields each event with its answer and the parts that it adds; None when a run starts or nothing is new.

        Raises:
            ApiError: the answers are incomplete, or another model was loaded.
        """
        answers = self._answers.values()
        if self._plans[0].seconds is not None:
            patience = LOOK_SECONDS
        async for reply in run.replies(patience):
            for answer in self._late():
                yield answer, None, answer.settle()
            if reply is None or isinstance(reply, RunStarted):
                yield None
            elif not self._answers[reply.run_id].is_complete:
                answer = self._answers[reply.run_id]
                event = reply.event if isinstance(reply, RunAdvanced) else None
                parts = answer.score(reply.scores) if isinstance(reply, PromptScored) else answer.fold(reply.event)
                if isinstance(event, PrefillFinished):
                    self._since[answer.index] = asyncio.get_running_loop().time()
                if isinstance(event, CanvasCommitted):
                    run.note_tokens(sum(len(one.tokens) for one in answers))
                yield answer, event, parts
            for run_id, answer in self._answers.items():
                if answer.is_complete:
                    run.drop(run_id)
            if all(one.is_complete for one in answers):
                run.succeed()
                break
        for answer in answers:
            yield answer, None, answer.finish()

    def _late(self) -> Iterator[ServedAnswer]:
        """Yields the answers whose time is over: with a line that is settled, or after so many times as long."""
        seconds, now = self._plans[0].seconds, asyncio.get_running_loop().time()
        for answer in self._answers.values():
            since = self._since.get(answer.index)
            if seconds is None or since is None or answer.is_complete:
                continue
            passed = (now - since) / seconds
            if passed > LAST or (passed > 1 and "\n" in answer.settled):
                yield answer


class RunResponse:
    """An ASGI application that runs the plans of one request and writes their answers, one of each."""

    def __init__(
        self,
        context: ServerContext,
        plans: Sequence[RunPlan],
        writer: AnswerWriter,
        endpoint: str,
        *,
        is_streamed: bool,
    ) -> None:
        self._context, self._plans, self._writer = context, plans, writer
        self._endpoint, self._is_streamed = endpoint, is_streamed
        self._answering = Answering(context, plans)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._answering.run(self._endpoint, client_of(scope), receive) as run:
            if self._is_streamed:
                await send_stream(self._stream(run), send, self._writer.content_type)
            else:
                await JSONResponse(await self._whole(run))(scope, receive, send)

    async def _whole(self, run: ServedRun) -> dict[str, Any] | list[dict[str, Any]]:
        answers = self._answering.answers
        parts: list[list[OutputPart]] = [[] for _ in answers]
        async for news in self._answering.advance(run, None):
            if news is not None:
                answer, _, new_parts = news
                parts[answer.index] += new_parts
        return self._writer.whole([(joined(one), answer) for one, answer in zip(parts, answers, strict=True)])

    async def _stream(self, run: ServedRun) -> AsyncGenerator[bytes, None]:
        writer, answers, is_begun = self._writer, self._answering.answers, False
        frames = [
            CanvasFrames(plan.model, plan.request.config.max_denoising_steps) for plan in self._plans if plan.has_frames
        ]
        try:
            async for news in self._answering.advance(run, self._context.options.comment_seconds):
                if not is_begun:
                    is_begun = True
                    yield b"".join(writer.begin(answers))
                if news is None:
                    yield writer.alive
                    continue
                answer, event, parts = news
                frame = frames[answer.index].fold(event) if frames and event is not None else None
                if frame is not None:
                    yield b"".join(writer.add_frame(frame, answer))
                if parts:
                    yield b"".join(writer.add(parts, answer))
            yield b"".join(writer.end(answers))
        except ApiError as error:
            if not is_begun:
                raise
            yield b"".join(writer.fail(error))
