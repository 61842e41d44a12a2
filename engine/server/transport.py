"""A connection's transport that closes as RFC 9112 §9.6 requires, and within a time limit.

asyncio's own drops data that arrives after closing. A client that is still sending the body of a refused request would
then see "connection reset" in place of the reason. It also waits for ever for a client that does not read pending data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

LINGER_SECONDS = 1.0  # time for a client to read why it is refused


class ClosingTransport(asyncio.Transport):
    """Wraps another transport.

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
        if not self._is_closing:
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
