"""uvicorn's HTTP protocol with bounds on connections, and on the time for heads and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from engine.server.errors import ApiError
from engine.server.options import ServerOptions
from engine.server.security import CALLER, Caller

LINGER_SECONDS = 1.0  # time for a client to read why it is refused


class ClosingTransport(asyncio.Transport):
    """Wraps another transport, to close as RFC 9112 §9.6 requires, and within a time limit.

    asyncio's own drops data that arrives after closing. A client that is still sending the body of a refused request
    would then see "connection reset" in place of the reason. It also waits for ever for a client that does not read
    pending data.

    Args:
        lingers: called at closing; True if the client may still be sending.
        seconds: time within which the client must accept the remaining data.
    """

    def __init__(self, inner: asyncio.Transport, lingers: Callable[[], bool], seconds: float) -> None:
        super().__init__()
        self._inner, self._lingers, self._seconds = inner, lingers, seconds
        self._timers: list[asyncio.TimerHandle] = []
        self._is_closing = False

    def close(self) -> None:
        """Sends pending data, reads on for a moment if the client is still sending, then closes."""
        if self.is_closing():
            return
        self._is_closing = True
        try:
            if self._lingers():
                self._inner.write_eof()
                self._inner.resume_reading()
                self._after(LINGER_SECONDS, self._inner.close)
            else:
                self._inner.close()
            self._after(LINGER_SECONDS + self._seconds, self._inner.abort)
        except OSError:  # the client has closed it already
            self._inner.abort()

    def abort(self) -> None:
        self._is_closing = True
        self._inner.abort()

    def forget(self) -> None:
        """Cancels all timers: the connection is lost."""
        while self._timers:
            self._timers.pop().cancel()

    def is_closing(self) -> bool:
        return self._is_closing or self._inner.is_closing()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self.is_closing():  # asyncio logs each write to a client that is gone
            self._inner.write(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)

    def pause_reading(self) -> None:
        if not self._is_closing:
            self._inner.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_closing:
            self._inner.resume_reading()

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, call))


class BoundedProtocol(H11Protocol):
    """One connection. uvicorn itself would wait for ever for the rest of a head."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        options: ServerOptions,
    ) -> None:
        self._caller = Caller()
        super().__init__(config, server_state, {**app_state, CALLER: self._caller}, _loop)
        self._options = options
        self._since = self.loop.time()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._closing = ClosingTransport(transport, self._is_being_sent_to, self._options.send_seconds)
        super().connection_made(self._closing)
        if len(self.connections) > self._options.most_connections:
            self._make_room()
        self._watch_head()

    def _make_room(self) -> None:
        """Closes the connection that has been silent for longest without ever showing the key, or else this one."""
        silent = [one for one in self.connections if isinstance(one, BoundedProtocol) and one._is_silent_stranger]
        oldest = min(silent, key=lambda one: one._since, default=self)
        oldest._refuse(ApiError(503, "Too many connections are open; try again later."))

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch("head")
        self._unwatch("reading")
        super().connection_lost(exc)
        self._closing.forget()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._timers["reading"] = self.loop.call_later(self._options.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._unwatch("reading")
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(ApiError(400, msg))

    @property
    def _is_silent_stranger(self) -> bool:
        return self._is_between_requests and not (self._caller.has_key or self.transport.is_closing())

    @property
    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_being_sent_to(self) -> bool:
        """Returns True if the client has not sent its whole request, or has sent an invalid one."""
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def _unwatch(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()

    def _watch_head(self) -> None:
        if not self._is_between_requests or self.transport.is_closing():
            self._unwatch("head")
        elif "head" not in self._timers:
            self._timers["head"] = self.loop.call_later(self._options.header_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        del self._timers["head"]
        if self._is_between_requests and not self.transport.is_closing():
            self._refuse(ApiError(408, "The request did not arrive in time."))

    def _refuse(self, error: ApiError) -> None:
        """Answers without a request, and closes."""
        body = json.dumps(error.body).encode()
        head = f"HTTP/1.1 {error.status} Refused\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()
