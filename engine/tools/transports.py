"""Connections to tool servers by the transports of the protocol's library: a program's pipes, or Streamable HTTP."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TextIO

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from engine.errors import SafelightError, proxy_error
from engine.tools.declared import EXAMPLES, ToolServer

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
    given = StdioServerParameters(
        command=os.path.expanduser(command),
        args=args,
        env=env,
        cwd=os.path.expanduser(server.cwd) or None,
        encoding_error_handler="replace",
    )
    async with stdio_client(given, log) as (read, write):
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
        made = httpx2.AsyncClient(
            verify=httpx2.create_ssl_context(),
            headers={"Accept-Encoding": "identity", **dict(server.headers)},
            timeout=timeout,
            event_hooks={"response": [check]},
            trust_env=server.is_remote,  # proxies
        )
    except (ValueError, ImportError, httpx2.InvalidURL):  # without their packages some are not spoken
        raise SafelightError(f"cannot be reached: {proxy_error()}") from None
    async with (
        made as client,
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
