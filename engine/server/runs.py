"""The runs of one request, usually a single one: passed from the scheduler's thread to the server's. They pause while
the client reads slowly, and end when the client leaves, the time is up, or the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from engine.errors import SafelightError, sentence
from engine.server.context import ServerContext
from engine.server.errors import ApiError, no_model, too_many
from engine.server.live import LiveRequest, LiveState
from engine.service import BusyError, PromptScored, RunAdvanced, RunEnded, RunRequest, RunStarted, ServiceReply

MAX_REPLIES = 32  # by which a run may be ahead of its client
MAX_TOGETHER = 4  # runs of one request that are ahead, if there are more


class RunChannel:
    """An ``Outlet`` whose replies an event loop awaits.

    Args:
        most: replies that it holds before it is full.
    """

    def __init__(self, wake: Callable[[], None], most: int = MAX_REPLIES) -> None:
        self._loop, self._wake, self._most = asyncio.get_running_loop(), wake, most
        self._replies: deque[ServiceReply] = deque()
        self._arrived = asyncio.Event()
        self._is_closed = False

    def put(self, reply: ServiceReply) -> None:
        """Adds a reply, from the scheduler's thread."""
        if not self._is_closed:
            self._replies.append(reply)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._arrived.set)

    @property
    def is_full(self) -> bool:
        return len(self._replies) >= self._most

    def close(self) -> None:
        """Drops all replies: none is needed any more."""
        self._is_closed = True
        self._replies.clear()
        self._wake()

    async def get(self) -> ServiceReply:
        while not self._replies:
            self._arrived.clear()
            if not self._replies:
                await self._arrived.wait()
        was_full = self.is_full
        reply = self._replies.popleft()
        if was_full:
            self._wake()
        return reply


class OneOfSeveral(threading.Event):
    """The cancel flag of one of several runs: set by itself, or with the flag of all."""

    def __init__(self, together: threading.Event) -> None:
        super().__init__()
        self._together = together

    def is_set(self) -> bool:
        return super().is_set() or self._together.is_set()


def client_of(scope: Scope) -> str:
    """Returns the client of a request, by its address and the name that it gives itself: programs share an address."""
    address, _ = scope.get("client") or ("", 0)
    return f"{address} {Headers(scope=scope).get('user-agent', '')}"


class ServedRun:
    """The runs of one request, as an asynchronous context; leaving it ends them.

    Args:
        client: whose turn it is, among those who wait.
        receive: ends the runs when the client leaves; None: it cannot be known.
        fingerprint: of the model that the request was checked for; empty: any may run it.
        field: field of the HTTP request that is at fault if a run is refused.
        ignored: fields of the HTTP request that were passed over.
    """

    def __init__(
        self,
        context: ServerContext,
        requests: Sequence[RunRequest],
        endpoint: str,
        model: str,
        field: str | None = None,
        *,
        client: str,
        receive: Receive | None = None,
        fingerprint: str = "",
        ignored: tuple[str, ...] = (),
    ) -> None:
        self._context, self._field, self._client = context, field, client
        self._endpoint, self._model, self._ignored = endpoint, model, ignored
        self._receive, self._fingerprint = receive, fingerprint
        self._cancel = requests[0].cancel
        if len(requests) > 1:
            self._cancel = threading.Event()
            requests = [dataclasses.replace(request, cancel=OneOfSeveral(self._cancel)) for request in requests]
        self._requests = requests
        self._channel = RunChannel(context.scheduler.wake, MAX_REPLIES * min(len(requests), MAX_TOGETHER))
        self._live: LiveRequest | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_late = False
        self._begun: set[str] = set()  # ids of runs
        self._prompt_tokens = 0
        self._state: LiveState = "cancelled"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            most = self._context.options.most_waiting
            self._context.scheduler.run_all(self._requests, self._channel, most, self._client)
        except BusyError as error:
            raise too_many(str(error)) from None
        except SafelightError as error:
            raise ApiError(503, sentence(error)) from None
        self._live = self._context.live.open(self._endpoint, self._model, self._cancel, self._ignored)
        self._timer = loop.call_later(self._context.options.request_seconds, self._expire)
        if self._receive is not None:
            self._watcher = asyncio.create_task(self._watch(self._receive))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cancel.set()
        self._channel.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if isinstance(error, Exception) and not isinstance(error, ApiError | ClientDisconnect):
            self._state = "failed"
        self._note(state=self._state)

    @property
    def id(self) -> str:
        """The name of the request in the list of live ones; empty before the context is entered."""
        return "" if self._live is None else self._live.id

    async def _watch(self, receive: Receive) -> None:
        """Ends the runs when the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._cancel.set()

    def _expire(self) -> None:
        self._is_late = True
        self._cancel.set()

    def drop(self, run_id: str) -> None:
        """Ends one of several runs, whose rest is not needed."""
        for request in self._requests:
            if request.run_id == run_id:
                request.cancel.set()

    def succeed(self) -> None:
        """Records that the needed part is there; the rest of the run is not needed."""
        self._state = "finished"

    def note_tokens(self, count: int) -> None:
        """Reports the current length of the answer."""
        self._note(tokens=count)

    def _note(self, **changes: object) -> None:
        if self._live is not None:
            self._context.live.update(self._live.id, **changes)

    async def replies(
        self, patience: float | None = None
    ) -> AsyncIterator[RunStarted | PromptScored | RunAdvanced | None]:
        """Yields the replies up to the end of all runs; None after ``patience`` seconds.

        Raises:
            ApiError: a run failed, so that the answer is incomplete; or another model was loaded.
        """
        left = len(self._requests)
        while left:
            try:
                async with asyncio.timeout(patience):
                    reply = await self._channel.get()
            except TimeoutError:
                yield None
                continue
            match reply:
                case RunStarted():
                    self._note_start(reply)
                    yield reply
                case PromptScored() | RunAdvanced():
                    yield reply
                case RunEnded():
                    left -= 1
                    self._end(reply)
        self._state = "finished"

    def _note_start(self, reply: RunStarted) -> None:
        if self._fingerprint not in ("", reply.trace.header.model.fingerprint):
            raise ApiError(503, "Another model was loaded in the meantime; ask again.", code="other_model")
        trace: dict[str, object] = {} if self._begun else {"trace": reply.trace}  # only the first of several is shown
        self._begun.add(reply.run_id)
        self._prompt_tokens += len(reply.trace.header.prompt_ids)
        self._note(state="running", prompt_tokens=self._prompt_tokens, **trace)

    def _end(self, reply: RunEnded) -> None:
        if reply.message:
            self._state = "failed"
            # A run that never began is the request's own fault, not the engine's.
            is_refused = reply.run_id not in self._begun and not reply.details
            if self._context.scheduler.model is None:
                raise no_model()
            status, field = (400, self._field) if is_refused else (500, None)
            raise ApiError(status, sentence(reply.message), param=field, headers={"x-should-retry": "false"})
        if self._cancel.is_set():
            raise self._interruption()

    def _interruption(self) -> ApiError:
        final = {"x-should-retry": "false"}
        if self._is_late:
            self._state = "failed"
            limit = self._context.options.request_seconds
            return ApiError(503, f"The answer took longer than {limit:g} seconds.", code="timeout", headers=final)
        if self._context.is_stopping:
            return ApiError(503, "The server is stopping.", code="stopping", headers=final)
        return ApiError(503, "The run was cancelled on the server's side.", code="cancelled", headers=final)
