"""One tool server: its connection, which is opened and closed in one task, and calls to it.

A server that has ended is started again by the next call, after a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from engine.errors import SafelightError, proxy_error, spoken
from engine.tools.declared import EXAMPLES, ToolServer
from engine.tools.tool import MAX_TOOLS, Status, Tool, ToolResult, ToolServerState, read_result, read_tool

MAX_MESSAGE = 8 * 2**20  # bytes from an address; a picture of a screen takes a few MB
KEY_NEEDED = "asks for a key (401); add it as a header under Edit"
KEY_REFUSED = "refuses the key in its headers (401); change it under Edit"
HTTP_SECONDS = 30.0  # to connect, and to send a part of a request

logging.getLogger("mcp").addHandler(logging.NullHandler())  # it would write what servers send to the terminal

PASSED_ON = {
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "LC_ALL"),
    *("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"),
}
"""Variables that programs get besides those of the library: without them none is downloaded behind a proxy."""
Streams = tuple[Any, Any]
EXAMPLES_OPTION = "--example-tools"
"""The option with which a bundle starts the server of the example tools."""


@asynccontextmanager
async def program(server: ToolServer, log: TextIO, ended: Callable[[], None]) -> AsyncGenerator[Streams, None]:
    """Runs a program for as long as the context is open.

    Args:
        log: the file that takes its standard error.
        ended: called when it sends no more.

    Raises:
        OSError: it cannot be started.
    """
    env = {name: value for name, value in os.environ.items() if name.upper() in PASSED_ON} | dict(server.env)
    command, *args = example_server() if server.command == EXAMPLES else (server.command, *server.args)
    parameters = StdioServerParameters(
        command=os.path.expanduser(command),
        args=args,
        env=env,
        cwd=os.path.expanduser(server.cwd) or None,
        encoding_error_handler="replace",
    )
    async with stdio_client(parameters, log) as (read, write):
        yield _UntilEnded(read, ended), write


class _UntilEnded:
    """A stream of messages as the library reads it, which says when it has ended."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream, self._ended = stream, ended

    async def __aenter__(self) -> _UntilEnded:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _UntilEnded:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise


def example_server() -> list[str]:
    """Returns the command of the server of the example tools: Python, or in a bundle the program itself."""
    if getattr(sys, "frozen", False):
        return [sys.executable, EXAMPLES_OPTION]
    return [sys.executable, "-P", "-m", "engine.tools.example_server"]


@asynccontextmanager
async def address(server: ToolServer, refused: Callable[[str], None]) -> AsyncGenerator[Streams, None]:
    """Connects to a server by Streamable HTTP for as long as the context is open.

    Args:
        refused: called with the reason when the server refuses its key, or has sent more than it may.
    """
    timeout = httpx2.Timeout(HTTP_SECONDS, read=None)  # a call has a time limit of its own

    def end(reason: str) -> None:
        refused(reason)
        raise httpx2.ReadError(reason)

    async def check(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":  # it may unpack without end
            end("it sent a packed answer, which was not asked for")
        if response.status_code == 401:
            has_key = any(name.lower() == "authorization" for name, _ in server.headers)
            end(KEY_REFUSED if has_key else KEY_NEEDED)
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not is_stream or response.status_code != 200:  # the library bounds each event of a stream
            response.stream = _Bounded(response.stream, end)

    try:
        new_client = httpx2.AsyncClient(
            verify=httpx2.create_ssl_context(),
            headers={"Accept-Encoding": "identity", **dict(server.headers)},
            timeout=timeout,
            event_hooks={"response": [check]},
            trust_env=server.is_remote,  # proxies
        )
    except (ValueError, ImportError, httpx2.InvalidURL):  # without their packages some are not spoken
        raise SafelightError(f"cannot be reached: {proxy_error()}") from None
    async with (
        new_client as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncByteStream):
    """Ends an answer that is longer than a message may be."""

    def __init__(self, stream: Any, end: Callable[[str], None]) -> None:
        self._stream, self._end = stream, end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for data in self._stream:
            size += len(data)
            if size > MAX_MESSAGE:
                self._end(f"it sent a message of more than {MAX_MESSAGE // 2**20} MB")
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


START_SECONDS = 60.0  # npx and uvx download a server before its first start
LIST_SECONDS = 30.0
LIST_PAUSE = 1.0  # seconds between two lists, however often they change
PAUSE = 1.0  # seconds after a failure
MAX_PAGES = 20  # of a list of tools
MAX_LOG = 8_192  # bytes of what a program wrote last to its standard error
LOST = (types.CONNECTION_CLOSED, types.INTERNAL_ERROR, types.INVALID_REQUEST)
"""Errors that the library gives for an address that does not answer, or no longer knows us."""
NO_PROTOCOL = "sent an answer that does not follow the protocol"
CLIENT = types.Implementation(name="safelight", version=version("safelight"))
"""How we introduce ourselves to servers."""


class Connection:
    """A server's connection. All methods must be called in the event loop's thread.

    Args:
        changed: called whenever ``state`` has changed.
    """

    def __init__(self, server: ToolServer, changed: Callable[[], None]) -> None:
        self.server = server
        self.state = ToolServerState(server)
        self._changed = changed
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()  # the last start has succeeded or failed
        self._stop = asyncio.Event()  # the connection must be closed, or has ended
        self._listed = asyncio.Event()  # the list of tools must be read again
        self._log = Path()  # the program's standard error
        self._wrote = ""  # the end of that, as plain text
        self._reason = ""
        self._tools: tuple[Tool, ...] = ()  # that it last had
        self._next_try = 0.0

    def start(self) -> None:
        """Starts the server in a task of its own, unless it runs."""
        if self._task is None or self._task.done():
            self._ready, self._stop, self._listed = asyncio.Event(), asyncio.Event(), asyncio.Event()
            self._reason = self._wrote = ""
            self._task = asyncio.get_running_loop().create_task(self._serve(), name=f"tools of {self.server.name}")

    async def close(self) -> None:
        """Ends the server, and waits until it has ended."""
        self._stop.set()
        if self._task is not None:
            if not self._ready.is_set():
                self._task.cancel()
            await asyncio.wait((self._task,))

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float) -> ToolResult:
        """Calls a tool. A failed call is a result as well, which says why, for the model to read.

        Raises:
            SafelightError: the server cannot be reached.
        """
        client = await self._connected()
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                asked = types.CallToolRequestParams(name=tool, arguments=arguments)
                # not ``call_tool``, which checks the result against the server's patterns, perhaps for ever
                raw = await client.session.send_request(types.CallToolRequest(params=asked), types.CallToolResult)
        except TimeoutError:
            return ToolResult(f"the tool gave no answer within {seconds:g} seconds", True, seconds)
        except (MCPError, ValidationError, httpx2.HTTPError) as error:
            why = self._why(error)
            is_lost = isinstance(error, httpx2.HTTPError) or (isinstance(error, MCPError) and error.code in LOST)
            if self.server.url and is_lost:
                self._reason = why
                self._stop.set()  # the next call connects again
            return ToolResult(why, True, time.monotonic() - began)
        return read_result(raw, time.monotonic() - began)

    async def _connected(self) -> Client:
        if self._task is None or self._task.done():
            wait = self._next_try - time.monotonic()
            if wait > 0:
                raise SafelightError(f"{self.server.name} {self.state.problem}; it is tried again in {wait:.0f} s")
            self.start()
        await self._ready.wait()
        if self._client is None:
            raise SafelightError(f"{self.server.name} {self.state.problem or 'has ended'}")
        return self._client

    async def _serve(self) -> None:
        """Opens the connection, keeps it until it ends or is closed, and closes it, in this one task."""
        self._show("starting")
        try:
            async with contextlib.AsyncExitStack() as stack:
                transport = self._transport(stack)
                async with asyncio.timeout(START_SECONDS):  # no scope of anyio: what is opened here stays open
                    client = await stack.enter_async_context(
                        Client(transport, client_info=CLIENT, message_handler=self._take)
                    )
                    await self._list(client)
                self._client = client
                self._ready.set()
                await self._keep(client)
            self._show("failed" if self._reason else "off", problem=self._reason)
        except asyncio.CancelledError:
            self._show("off")
            raise
        except BaseException as error:  # groups of exceptions, too: nothing may end the thread of all servers
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            self._show("failed", problem=self._why(error))
        finally:
            self._client = None
            if self.state.status == "failed":
                self._next_try = time.monotonic() + PAUSE
            self._ready.set()

    def _transport(self, stack: contextlib.AsyncExitStack) -> contextlib.AbstractAsyncContextManager[Streams]:
        if self.server.url:
            return address(self.server, self._refuse)
        self._log = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)), "log")
        return program(self.server, stack.enter_context(self._log.open("w")), self._end)

    def _refuse(self, reason: str) -> None:
        self._reason = reason
        self._stop.set()

    def _end(self) -> None:
        """Notes that the program has ended by itself, and what it wrote last."""
        self._read_log()
        last = self._wrote.rsplit("\n", 1)[-1]
        self._refuse(f"has ended: {last[:200]}" if last else "has ended")

    def _read_log(self) -> None:
        with contextlib.suppress(OSError):  # there is none, or it is gone with its program
            written = self._log.read_bytes()[-MAX_LOG:].decode("utf-8", "replace")
            lines = ("".join(sign if sign.isprintable() else " " for sign in line) for line in written.splitlines())
            self._wrote = "\n".join(line.rstrip() for line in lines if line.strip())

    async def _take(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._listed.set()

    async def _keep(self, client: Client) -> None:
        """Reads the list of tools again whenever it has changed, until the connection ends."""
        while not self._stop.is_set():
            waits = [asyncio.ensure_future(event.wait()) for event in (self._stop, self._listed)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if self._listed.is_set() and not self._stop.is_set():
                self._listed.clear()
                try:
                    async with asyncio.timeout(LIST_SECONDS):
                        await self._list(client)
                except TimeoutError:
                    raise SafelightError(f"gave no new list of its tools within {LIST_SECONDS:.0f} seconds") from None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LIST_PAUSE):
                        await self._stop.wait()

    async def _list(self, client: Client) -> None:
        """Reads the tools of the server, as many as are offered."""
        tools, cursor = dict[str, Tool](), None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            tools |= {tool.name: tool for raw in page.tools if (tool := read_tool(self.server, raw)) is not None}
            cursor = page.next_cursor
            if not cursor or len(tools) >= MAX_TOOLS:
                break
        self._tools = tuple(tools.values())[:MAX_TOOLS]
        self._show("ready")

    def _show(self, status: Status, problem: str = "") -> None:
        """Shows a state; the tools of a server that has ended stay, as their next call starts it again."""
        self._read_log()
        tools = self._tools if status in ("starting", "ready", "failed") else ()
        self.state = ToolServerState(self.server, status, tools, problem, self._wrote)
        self._changed()

    def _why(self, error: BaseException) -> str:
        """Returns the reason of a failure, in words: what the server wrote last is worth more than a number."""
        if isinstance(error, BaseExceptionGroup):
            return self._why(error.exceptions[0])
        if self._reason:
            return self._reason
        if isinstance(error, MCPError):
            if error.code == types.CONNECTION_CLOSED:
                return "does not answer any more" if self.server.url else "has ended"
            if error.code == types.PARSE_ERROR and error.message.startswith("Failed to parse"):  # by the library
                return NO_PROTOCOL
            text = " ".join(str(SafelightError(error.message)).split())
            return f"answered: {text[:300]}" if text else f"answered with the error {error.code}"
        if isinstance(error, TimeoutError):
            return f"gave no answer within {START_SECONDS:.0f} seconds"
        if isinstance(error, FileNotFoundError | PermissionError):
            return f"cannot be started: {(error.strerror or '').lower()}: {self.server.command}"
        if isinstance(error, ValidationError):
            return NO_PROTOCOL
        if isinstance(error, httpx2.HTTPStatusError):
            return f"answered with the status {error.response.status_code}"
        if isinstance(error, httpx2.HTTPError):
            return f"cannot be reached: {spoken(OSError(str(error)))}"
        return spoken(error)
