"""Lines from one descriptor and to another, for an event loop. Knows nothing of messages but how one is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import sys
import threading
from collections.abc import AsyncIterator

PART_BYTES = 65_536  # read at a time
WRITTEN_BYTES = 512  # at a time: a pipe that takes any bytes takes so many, by POSIX
MOST_AHEAD = 16  # lines that are read before they are asked for
JOIN_SECONDS = 1.0
LOOK_SECONDS = 0.1  # between two looks whether the stream is closed, while enough lines are ahead
TOO_LONG = "The message is too long; send a shorter one."
INVALID_REQUEST = -32_600  # JSON-RPC's code
_REFUSED = "\n"  # stands for a line that was too long


class LineStream:
    """Has what the protocol's library uses of two text files: iteration, ``write`` and ``flush``.

    Made in the loop that uses it. ``close`` ends a read and a write that wait, except on Windows, where a read can only
    end with the program.

    Args:
        most: bytes of a line; longer ones are refused.
        read: bytes that were read before.
        answered: the id of a message that was answered before; what is written to answer it is left out.
    """

    def __init__(self, source: int, sink: int, most: int, read: bytes = b"", answered: int | str | None = None) -> None:
        self._source, self._sink, self._most = source, sink, most
        self._before, self._answered = read, answered
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()  # None: the end
        self._room = threading.Semaphore(MOST_AHEAD)
        self._writing, self._sinking = asyncio.Lock(), threading.Lock()
        self._is_closed = False
        self._woken, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._read, name="safelight-lines", daemon=True)
        self._thread.start()

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        while (line := await self._lines.get()) == _REFUSED:
            self._room.release()
            error = {"code": INVALID_REQUEST, "message": TOO_LONG}
            await self.write(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}) + "\n")
        self._room.release()
        if line is None:
            raise StopAsyncIteration
        return line

    async def write(self, text: str) -> None:
        """Writes a text.

        Raises:
            OSError: the reader is gone, or the stream is closed.
        """
        if self._answered is not None and json.loads(text).get("id") == self._answered:
            self._answered = None
            return
        async with self._writing:
            await asyncio.to_thread(self._write, text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Does nothing: what is written is not held back."""

    def close(self) -> None:
        """Ends reads and writes; may be called once."""
        self._is_closed = True
        os.write(self._waker, b".")
        self._thread.join(JOIN_SECONDS)
        with self._sinking:
            os.close(self._waker)
            if not self._thread.is_alive():
                os.close(self._woken)

    def _is_ready(self, *, to_write: bool = False) -> bool:
        """Waits until a descriptor is ready; False once the stream is closed."""
        if sys.platform != "win32":
            reads = [self._woken] if to_write else [self._woken, self._source]
            select.select(reads, [self._sink] if to_write else [], [])
        return not self._is_closed

    def _write(self, data: bytes) -> None:
        with self._sinking:
            while data:
                if self._is_closed or not self._is_ready(to_write=True):
                    raise BrokenPipeError("the stream is closed")
                data = data[os.write(self._sink, data[:WRITTEN_BYTES]) :]

    def _read(self) -> None:
        part, rest, is_too_long = self._before, b"", False
        with contextlib.suppress(OSError):
            while part or (self._is_ready() and (part := os.read(self._source, PART_BYTES))):
                *whole, rest = (rest + part).split(b"\n")
                part = b""
                for line in whole:
                    self._put(_REFUSED if is_too_long or len(line) > self._most else line.decode("utf-8", "replace"))
                    is_too_long = False
                if len(rest) > self._most:
                    rest, is_too_long = b"", True
        self._put(None)

    def _put(self, line: str | None) -> None:
        if line is not None and line != _REFUSED and not line.strip():
            return
        while not self._is_closed and not self._room.acquire(timeout=LOOK_SECONDS):
            pass
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
