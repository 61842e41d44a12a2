"""The tools over standard streams: a line of JSON a message, for programs that start this one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, TextIO, cast

from engine.server.context import ServerContext
from engine.server.options import ServerOptions
from engine.service import Scheduler

JOIN_SECONDS = 10.0
PART_BYTES = 65_536  # read at a time
log = logging.getLogger("safelight.server")


class StdioServer:
    """Serves a scheduler's model to the program at the other end, from ``start`` to ``stop``, in its own thread.

    It lists its tools at once; calls wait until ``expect_no_more``. The scheduler is not stopped.

    Args:
        on_end: called when the other program has closed its end.
        source: the descriptor that messages are read from.
        sink: takes the answers; None: standard output, which meanwhile belongs to nobody else.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        options: ServerOptions,
        on_end: Callable[[], None],
        source: int = 0,
        sink: TextIO | None = None,
    ) -> None:
        self._context = ServerContext(scheduler, options)
        self._source, self._sink, self._on_end = source, sink, on_end
        self._problem: str | None = None  # none yet: the model is being loaded
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._runs = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="safelight-mcp", daemon=True)

    def start(self) -> None:
        """Begins to read messages; returns once they are answered, so that what is imported next delays none."""
        self._thread.start()
        self._runs.wait()

    def expect_no_more(self, problem: str = "") -> None:
        """Lets calls go on: the model is loaded, or could not be, for the ``problem``."""
        self._problem = problem

    def stop(self) -> None:
        """Cancels the runs and ends the thread; may be called again."""
        self._context.is_stopping = True
        self._context.live.stop_all()
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(task.cancel)
        if self._thread.ident is not None:
            self._thread.join(JOIN_SECONDS)

    def _serve(self) -> None:
        try:
            asyncio.run(self._exchange())
        except* (asyncio.CancelledError, OSError):  # stopped, or the other program is gone
            pass
        except* Exception as group:
            log.error("the session failed: %s", type(group.exceptions[0]).__name__)
        finally:
            self._context.live.stop_all()
            self._runs.set()
            self._on_end()

    async def _exchange(self) -> None:
        import anyio  # takes half a second with the protocol's library
        from mcp.server.stdio import stdio_server

        from engine.server.mcp.tools import build_server  # imports that library

        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        server = build_server(self._context, lambda: self._problem)
        sink = None if self._sink is None else anyio.wrap_file(self._sink)
        self._runs.set()
        async with stdio_server(cast(Any, _Lines(self._source)), sink) as (read, write):
            await server.run(read, write, server.create_initialization_options())


class _Lines:
    """Lines of a descriptor as the library reads them of a file, by a thread that may wait when the program ends."""

    def __init__(self, source: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()  # None: the end
        threading.Thread(target=self._read, args=(source,), name="safelight-lines", daemon=True).start()

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def _read(self, source: int) -> None:
        rest = b""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            with contextlib.suppress(OSError):
                while part := os.read(source, PART_BYTES):
                    *whole, rest = (rest + part).split(b"\n")
                    for line in whole:
                        self._put(line.decode("utf-8", "replace"))
            self._put(None)

    def _put(self, line: str | None) -> None:
        self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
