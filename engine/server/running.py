"""A server in its own thread."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import uvicorn

from engine.errors import SafelightError, quoted
from engine.server.app import build_app
from engine.server.context import ServerContext
from engine.server.options import ServerOptions
from engine.server.protocol import BoundedProtocol
from engine.service import Scheduler

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
