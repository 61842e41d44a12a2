"""A response in rounds: runs of the model, and between them the calls of the user's tools that they end with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from engine.server.answer import ServedAnswer
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.messages import arguments_in
from engine.server.response_items import ServerCall
from engine.server.response_plans import ResponsePlans
from engine.server.response_writer import ResponsesWriter
from engine.server.runs import client_of
from engine.server.serving import Answering
from engine.server.sse import send_stream
from engine.server.user_tools import UserTools
from engine.tools.tool import MOST_CALLS, MOST_ROUNDS, ToolResult

PATH = "/v1/responses"
TOO_MANY = "This call was not made: there are too many in this response."
FINAL = {"x-should-retry": "false"}  # tools may have changed something: a client must not begin again by itself


class ResponseRounds:
    """An ASGI application that answers a request with the user's tools.

    Args:
        room: holds what the request holds; is closed at the end.
    """

    def __init__(
        self,
        context: ServerContext,
        tools: UserTools,
        plans: ResponsePlans,
        writer: ResponsesWriter,
        room: AsyncExitStack,
        *,
        is_streamed: bool,
    ) -> None:
        self._context, self._tools, self._plans, self._writer, self._room = context, tools, plans, writer, room
        self._is_streamed, self._is_begun, self._made = is_streamed, False, 0
        self._patience = context.options.comment_seconds if is_streamed else None
        self._ends = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._room:
            if self._is_streamed:
                await send_stream(self._stream(client_of(scope), receive), send, self._writer.content_type)
                return
            try:
                async with aclosing(self._rounds(client_of(scope), receive)) as parts:
                    async for _ in parts:
                        pass
            except ApiError as error:
                error.headers |= FINAL if self._made else {}
                raise
            await JSONResponse(self._writer.response)(scope, receive, send)

    async def _stream(self, client: str, receive: Receive) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._rounds(client, receive)) as parts:
                async for part in parts:
                    yield part
        except ApiError as error:
            if not self._is_begun:
                raise
            yield b"".join(self._writer.fail(error))

    async def _rounds(self, client: str, receive: Receive) -> AsyncGenerator[bytes, None]:
        writer, plan, answers = self._writer, self._plans.first, list[ServedAnswer]()
        self._ends = asyncio.get_running_loop().time() + self._context.options.request_seconds
        if self._plans.approved:
            yield self._begin()
            for approved in self._plans.approved:
                yield b"".join(writer.add_call(approved.tool, approved.arguments, approved.request))
        while True:
            calls = writer.calls
            async with aclosing(self._call_all(calls, receive, may_run=len(answers) <= MOST_ROUNDS)) as parts:
                async for part in parts:
                    yield part
            if answers and (not calls or writer.waits_for_client or len(answers) > MOST_ROUNDS):
                break
            if calls:
                used = sum(len(answer.tokens) for answer in answers)
                plan = await asyncio.to_thread(self._plans.plan, writer.output, used)
            writer.begin_answer()
            self._check_time()
            answering = Answering(self._context, (plan,))
            async with answering.run(PATH, client) as run:
                run.watch(receive)
                try:
                    async for news in answering.advance(run, self._patience):
                        part = writer.alive if news is None else b"".join(writer.add(news[2], news[0]))
                        if part or not self._is_begun:
                            yield self._begin() + part
                finally:
                    answering.count()
            answers += answering.answers
            yield b"".join(writer.end_answer(answers[-1]))
        yield b"".join(writer.end(answers))

    def _begin(self) -> bytes:
        """Returns the beginning of the stream, the first time."""
        if self._is_begun:
            return b""
        self._is_begun = True
        return b"".join(self._writer.begin(()))

    async def _call_all(
        self, calls: Sequence[ServerCall], receive: Receive, *, may_run: bool
    ) -> AsyncGenerator[bytes, None]:
        """Makes calls, one after the other; those that are too many fail."""
        most = self._plans.most_calls
        for place, call in enumerate(calls):
            arguments = arguments_in(call.text)
            if not may_run or place >= MOST_CALLS or (most is not None and self._made >= most):
                result = ToolResult(TOO_MANY, is_error=True)
            elif arguments is None:
                result = ToolResult("The arguments are no JSON object.", is_error=True)
            else:
                self._check_time()
                self._made += 1
                working = asyncio.ensure_future(self._tools.call(call.tool, arguments))
                leaving = asyncio.ensure_future(_until_left(receive))
                try:
                    while not working.done():
                        await asyncio.wait(
                            (working, leaving), timeout=self._patience, return_when=asyncio.FIRST_COMPLETED
                        )
                        if leaving.done():
                            raise ApiError(400, "The client left.")
                        if not working.done():
                            yield self._writer.alive
                    result = working.result()
                finally:
                    working.cancel()
                    leaving.cancel()
            yield b"".join(self._writer.finish(call, result))

    def _check_time(self) -> None:
        if asyncio.get_running_loop().time() > self._ends:
            limit = self._context.options.request_seconds
            raise ApiError(503, f"The answer took longer than {limit:g} seconds.", code="timeout", headers=FINAL)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
