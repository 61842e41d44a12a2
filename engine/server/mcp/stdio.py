"""The tools over standard streams: a line of JSON a message, for programs that start this one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from engine.errors import SafelightError
from engine.server.context import ServerContext
from engine.server.mcp.lines import LineStream
from engine.server.mcp.tools import ServedTools
from engine.server.options import ServerOptions
from engine.service import Scheduler

JOIN_SECONDS = 10.0
log = logging.getLogger("safelight.server")


@contextmanager
def own_streams() -> Iterator[tuple[int, int]]:
    """Yields the descriptors of standard input and output; meanwhile others read nothing and write to standard error.

    Only messages may stand on standard output, whatever a library prints.

    Raises:
        SafelightError: one of them is closed.
    """
    try:
        source, sink, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    except OSError:
        raise SafelightError("standard input or output is closed; let another program start this") from None
    try:
        if sys.platform == "win32":
            import msvcrt  # there alone

            for descriptor in (source, sink):
                msvcrt.setmode(descriptor, os.O_BINARY)
        sys.stdout.flush()
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        for descriptor in (source, sink, nothing):
            os.close(descriptor)


class StdioServer:
    """Serves a scheduler's model to the program at the other end, from ``start`` to ``stop``, in its own thread.

    It lists its tools at once; calls wait until ``expect_no_more``. The scheduler is not stopped.

    Args:
        source, sink: descriptors that messages are read from and written to.
        on_end: called when the other program has closed its end.
        read: bytes that were read before. answered: the id of a message in them that was answered.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        options: ServerOptions,
        source: int,
        sink: int,
        on_end: Callable[[], None],
        read: bytes = b"",
        answered: int | str | None = None,
    ) -> None:
        self._context = ServerContext(scheduler, options)
        self._source, self._sink, self._on_end = source, sink, on_end
        self._before = read, answered
        self._loaded = threading.Event()
        self._problem = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._runs = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="safelight-mcp", daemon=True)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Begins to read messages; returns once they are answered, so that what is imported next delays none."""
        self._thread.start()
        self._runs.wait()

    def expect_no_more(self, problem: str = "") -> None:
        """Lets calls go on: the model is loaded, or could not be, for the ``problem``."""
        self._problem = problem
        self._loaded.set()

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
            asyncio.run(self._main())
        except* (asyncio.CancelledError, OSError):  # stopped, or the other program is gone
            pass
        except* Exception as group:
            log.error("the session failed: %s", type(group.exceptions[0]).__name__)
        finally:
            self._runs.set()
            self._on_end()

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        lines = LineStream(self._source, self._sink, self._context.options.body_bytes, *self._before)
        try:
            await self._exchange(lines)
        finally:
            self._context.live.stop_all()
            lines.close()

    async def _exchange(self, lines: LineStream) -> None:
        from mcp.server.stdio import stdio_server  # half a second

        from engine.server.mcp.protocol import build_server

        tools = ServedTools(self._context, lambda: not self._loaded.is_set(), lambda: self._problem)
        server = build_server(tools)
        self._runs.set()
        async with stdio_server(cast(Any, lines), cast(Any, lines)) as (read, write):
            await server.run(read, write, server.create_initialization_options())
