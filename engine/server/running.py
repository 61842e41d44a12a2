"""A server in its own thread; uvicorn's HTTP protocol with bounds on connections, and times for heads and answers."""

from __future__ import annotations

import asyncio
import errno
import functools
import json
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import h11
import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from engine.errors import SafelightError, quoted
from engine.server.app import CALLER, Caller, build_app
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.options import ServerOptions
from engine.service import Scheduler

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


GRACE_SECONDS = 3  # for running answers, after their runs are cancelled
JOIN_SECONDS = 10.0
THREADS = 2  # that count tokens; further requests wait
IDLE_SECONDS = 5  # until a connection without a request is closed
BACKLOG = 128  # connections that the system holds until they are accepted
HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
]


class _Uvicorn(uvicorn.Server):
    """A server that signals when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_default_executor(_started(ThreadPoolExecutor(THREADS, "safelight-tokens")))
        await super().startup(sockets)
        self.listens.set()


def _started(pool: ThreadPoolExecutor) -> ThreadPoolExecutor:
    """Starts all threads of a pool, which would start them one by one, while requests wait."""
    together = threading.Barrier(THREADS)
    for _ in range(THREADS):
        pool.submit(together.wait)
    return pool


class RunningServer:
    """Serves a scheduler's model from ``start`` to ``stop``; both from any thread. The scheduler is not stopped."""

    def __init__(self, scheduler: Scheduler, options: ServerOptions) -> None:
        self._context = ServerContext(scheduler, options)
        self.live = self._context.live  # the requests that are being answered
        self.url = ""  # the address, http://127.0.0.1:port, from the start on
        self._uvicorn: _Uvicorn | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # held until the thread runs, so that ``stop`` can join it

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Listens; returns once requests are accepted.

        Raises:
            SafelightError: the port is taken or not allowed, or there is no such address.
        """
        if self._thread is not None:
            raise SafelightError("this server was already started; make a new one")
        options = self._context.options
        listener = _listen(options.host, options.port)
        host, port = listener.getsockname()[:2]
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        self.url = f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
        config = uvicorn.Config(
            build_app(self._context),
            http=cast(Any, functools.partial(BoundedProtocol, options=options)),
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",  # log lines of libraries may quote a request
            access_log=False,
            server_header=False,
            headers=HEADERS,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        server = _Uvicorn(config)
        thread = threading.Thread(target=self._serve, args=(server, listener), name="safelight-server", daemon=True)
        with self._lock:
            if self._context.is_stopping:
                listener.close()
                raise SafelightError("this server has been stopped; make a new one")
            thread.start()
            self._uvicorn, self._thread = server, thread
        server.listens.wait()
        if not server.started:
            raise SafelightError("the server could not be started; try again")

    def stop(self) -> None:
        """Cancels the runs, ends the streams and the thread; may be called again, and before ``start`` has returned."""
        with self._lock:
            self._context.is_stopping = True
            server, thread = self._uvicorn, self._thread
        if server is None or thread is None:
            return
        self.live.stop_all()
        server.should_exit = True
        thread.join(JOIN_SECONDS)

    @staticmethod
    def _serve(server: _Uvicorn, listener: socket.socket) -> None:
        try:
            server.run([listener])
        finally:
            listener.close()
            server.listens.set()  # releases any thread that waits for it


def _listen(host: str, port: int) -> socket.socket:
    name = host.strip("[]")
    try:
        family, kind, number, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise SafelightError(f"{quoted(host)} is not an address of this machine; try 127.0.0.1") from None
    listener = socket.socket(family, kind, number)
    try:
        if sys.platform == "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SafelightError(
                f"the port {port} is used by another program; give another one, or 0 for any free one"
            ) from None
        if error.errno == errno.EACCES:
            raise SafelightError(f"the port {port} is not allowed; give one from 1024 up") from None
        raise SafelightError(f"{quoted(host)} cannot be used ({error.strerror}); try 127.0.0.1") from None
    listener.setblocking(False)
    return listener
