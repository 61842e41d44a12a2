"""One HTTP request in its own thread, which is abandoned if it cannot be ended. Knows no server and no files.

A read that blocks, a slow DNS lookup, a header line every few seconds: a thread that waits for these cannot check a
flag. So another thread reads into a queue, and the caller takes from it for as long as it wants to wait. Nothing is
unpacked; a piece has 64 kB at most.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import TracebackType
from typing import Any

import httpx2

from engine.errors import SafelightError, proxy_error

POLL_SECONDS = 0.05  # between two checks of the flags while waiting
AHEAD = 16  # pieces that are read in advance
JOIN_SECONDS = 0.2  # time for a thread to end once its connection is closed

Received = httpx2.Response | bytes | Exception | None  # the head, then pieces, then None; or an error


class Exchange:
    """A request and its answer: entering waits for the answer's head, and leaving closes the connection.

    Args:
        check: called while waiting, at least every ``POLL_SECONDS``; what it raises ends the exchange.
        seconds: until the head must be there.
        stall: seconds without a byte that end it.
        connect: seconds until the connection must stand; None: as ``stall``.
        body: None asks with GET, bytes with POST.
        uses_proxies: sends the request through the proxies that the environment names.
        redirects: that are followed.

    Raises:
        httpx2.HTTPError, httpx2.InvalidURL: temporary and permanent faults, an answer that is late or no HTTP too.
        SafelightError: a proxy that the environment names cannot be used.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        check: Callable[[], None],
        *,
        seconds: float,
        stall: float,
        connect: float | None = None,
        body: bytes | None = None,
        uses_proxies: bool = True,
        redirects: int = 0,
    ) -> None:
        self._url, self._headers, self._check, self._body = url, dict(headers), check, body
        self._ends, self._stall = time.monotonic() + seconds, stall
        self._timeout = httpx2.Timeout(stall, connect=stall if connect is None else connect)
        self._uses_proxies, self._redirects = uses_proxies, redirects
        self._received: queue.Queue[Received] = queue.Queue(AHEAD)
        self._gone = threading.Event()
        self._handles: list[socket.socket] = []
        self._lock = threading.Lock()  # of the handles
        self._thread = threading.Thread(target=self._read, name="safelight-exchange", daemon=True)
        self.status = 0
        self.headers: Mapping[str, str] = {}

    def __enter__(self) -> Exchange:
        self._thread.start()
        try:
            head = self._next(self._ends)
            assert isinstance(head, httpx2.Response)
            self.status, self.headers = head.status_code, head.headers
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end()

    def pieces(self, seconds: float = float("inf")) -> Iterator[bytes]:
        """Yields the body as it was sent; all of it must arrive within ``seconds``."""
        ends = time.monotonic() + seconds
        while (piece := self._next(min(ends, time.monotonic() + self._stall))) is not None:
            assert isinstance(piece, bytes)
            yield piece

    def whole(self, most: int, seconds: float = float("inf")) -> bytes | None:
        """Returns the body as ``pieces`` yields it; None if it has more than ``most`` bytes."""
        body = bytearray()
        for piece in self.pieces(seconds):
            body += piece
            if len(body) > most:
                return None
        return bytes(body)

    def _next(self, ends: float) -> Received:
        """Waits for the next item; raises if it is late."""
        while True:
            self._check()
            left = ends - time.monotonic()
            if left <= 0:
                raise httpx2.ReadTimeout("too slow")
            try:
                item = self._received.get(timeout=min(POLL_SECONDS, left))
            except queue.Empty:
                continue
            if isinstance(item, httpx2.HTTPError | httpx2.InvalidURL | SafelightError):
                raise item
            if isinstance(item, Exception):  # raised by the libraries below if an answer is not HTTP
                raise httpx2.ReadError(type(item).__name__) from item
            return item

    def _end(self) -> None:
        self._gone.set()
        with self._lock:
            for handle in self._handles:
                with contextlib.suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)
                handle.close()
            self._handles.clear()
        self._thread.join(JOIN_SECONDS)

    # ---------------------------------------------------------------- the thread that reads

    def _read(self) -> None:
        try:
            try:
                new_client = httpx2.Client(
                    verify=_certificates(),
                    timeout=self._timeout,
                    trust_env=self._uses_proxies,
                    max_redirects=self._redirects,
                )
            except (ValueError, ImportError, httpx2.InvalidURL):  # without their packages some are not spoken
                raise proxy_error() from None
            with (
                new_client as client,
                client.stream(
                    "GET" if self._body is None else "POST",
                    self._url,
                    headers=self._headers,
                    follow_redirects=self._redirects > 0,
                    content=self._body,
                    extensions={"trace": self._keep_socket},
                ) as answer,
            ):
                going = self._put(answer)
                for piece in answer.iter_raw():
                    if not (going and self._put(piece)):
                        return
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, item: Received) -> bool:
        """Passes an item to the caller; False once the caller has left."""
        while not self._gone.is_set():
            with contextlib.suppress(queue.Full):
                self._received.put(item, timeout=POLL_SECONDS)
                return True
        return False

    def _keep_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Keeps a handle on each connection, by which another thread can close it even through TLS."""
        if event.endswith("connect_tcp.complete"):
            handle = info["return_value"].get_extra_info("socket").dup()
            with self._lock:
                if not self._gone.is_set():
                    self._handles.append(handle)
                    return
            with contextlib.suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)
            handle.close()


_certificates = cache(httpx2.create_ssl_context)
