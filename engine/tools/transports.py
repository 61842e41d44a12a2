"""Connections to tool servers, within bounds: a program's pipes, or Streamable HTTP.

The transport for programs is written here, since the SDK's holds a line of any length in memory. What a server says of
the form of its results is left out of both: results are read as text, and its patterns could take for ever.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.os.win32.utilities import (
    close_process_job,
    create_windows_process,
    get_windows_executable_command,
    terminate_windows_process_tree,
)
from mcp.shared.message import SessionMessage
from mcp_types.methods import validate_server_result

from engine.errors import SafelightError, proxy_error
from engine.tools.declared import EXAMPLES, ToolServer
from engine.tools.tool import LEFT_OUT

MOST_MESSAGE = 8 * 2**20  # bytes; a picture of a screen takes a few MB
MOST_VALUES = 300_000  # of a message: each is an object
MOST_LINES, LONGEST_LINE = 40, 500  # of what a program writes to its standard error
ERRORS_PAUSE = 0.01  # seconds between two pieces of that
LEAVE_SECONDS = 1.0  # for a program to end by itself once its input is closed
LAST_WORDS_SECONDS = 0.3  # for what a program writes to its standard error as it ends
KILL_SECONDS = 1.0  # from asking it to end to ending it
WATCH_SECONDS = 0.5  # from a program's end to ending what it has left
MOST_MESSAGES, MESSAGES_A_SECOND = 10_000, 200  # at once, and from then on; 16 kB count as one
RECONNECT_SECONDS = 1.0  # between two requests for a stream, whatever the server asks for
KEY_NEEDED = "asks for a key (401); add it as a header under Edit"
KEY_REFUSED = "refuses the key in its headers (401); change it under Edit"
HTTP_SECONDS = 30.0  # to connect, and to send a part of a request

logging.getLogger("mcp").addHandler(logging.NullHandler())  # it would write what servers send to the terminal

GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
"""What reading from or writing to a program raises once it has ended."""
PASSED_ON = {
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "LC_ALL"),
    *("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"),
}
"""Variables that programs get besides those of the library: without them none is downloaded behind a proxy."""
Streams = tuple[Any, Any]
EXAMPLES_OPTION = "--example-tools"
"""The option with which a bundle starts the server of the example tools."""


class Allowance:
    """Counts what a server sends, so that one that floods is ended."""

    def __init__(self) -> None:
        self._left, self._since = float(MOST_MESSAGES), time.monotonic()

    def take(self, size: int) -> None:
        """Counts a message of so many bytes.

        Raises:
            SafelightError: there are too many.
        """
        now = time.monotonic()
        self._left = min(MOST_MESSAGES, self._left + (now - self._since) * MESSAGES_A_SECOND) - 1 - size / 2**14
        self._since = now
        if self._left < 0:
            raise SafelightError("it sent messages without end")


class ErrorLines:
    """The last lines that a program wrote to its standard error, as plain text."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._rest = b""

    def add(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LONGEST_LINE]
        for line in lines[-MOST_LINES:]:
            self._lines.append(_readable(line))

    @property
    def text(self) -> str:
        lines = [*self._lines, _readable(self._rest)]
        return "\n".join(line for line in lines if line.strip())


def _readable(line: bytes) -> str:
    text = line[:LONGEST_LINE].decode("utf-8", "replace")
    return "".join(sign if sign.isprintable() or sign == "\t" else " " for sign in text).rstrip()


@asynccontextmanager
async def program(
    server: ToolServer, errors: ErrorLines, ended: Callable[[str], None]
) -> AsyncGenerator[Streams, None]:
    """Runs a program for as long as the context is open.

    Args:
        ended: called with a reason, or none, when the program has ended by itself or sends no more.

    Raises:
        OSError: it cannot be started.
    """
    process, log = await _spawn(server)
    into, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, out = anyio.create_memory_object_stream[SessionMessage](0)
    said, allowance = anyio.Event(), Allowance()  # said: all of the standard error is read
    is_closing = False

    def end(reason: str) -> None:
        if not is_closing:
            ended(reason)

    async def read() -> None:
        reason = ""
        async with into:  # closed last: whoever reads it finds the reason
            try:
                async for line in _lines(_stream(process.stdout)):
                    allowance.take(len(line))
                    check_values(count_values(line))
                    if line.strip():
                        await into.send(message_of(line))
            except SafelightError as error:
                reason = str(error)
            except GONE:
                pass
            if process.stderr is not None:
                with anyio.move_on_after(LAST_WORDS_SECONDS):
                    await said.wait()
            end(reason)

    async def watch() -> None:
        while process.returncode is None:
            await anyio.sleep(WATCH_SECONDS)
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await said.wait()
        end("")  # a child of the program may hold its output open

    async def write() -> None:
        try:
            async with out:
                async for message in out:
                    data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await _stream(process.stdin).send(data.encode() + b"\n")
        except GONE:
            end("")

    async def read_errors() -> None:
        with _unless_closed():
            async for data in _stream(process.stderr):
                errors.add(data)
                await anyio.sleep(ERRORS_PAUSE)
        said.set()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        group.start_soon(watch)
        if process.stderr is not None:
            group.start_soon(read_errors)
        try:
            yield read_stream, write_stream
        finally:
            is_closing = True
            with anyio.CancelScope(shield=True):
                read_stream.close()
                write_stream.close()
                await _end(process)
                if log is not None:
                    errors.add(await anyio.to_thread.run_sync(log))
            group.cancel_scope.cancel()


async def _spawn(server: ToolServer) -> tuple[Any, Callable[[], bytes] | None]:
    """Starts a program; on Windows its standard error goes to a file, and a function returns the end of that."""
    env = get_default_environment() | {name: value for name, value in os.environ.items() if name.upper() in PASSED_ON}
    env |= dict(server.env)
    cwd = Path(server.cwd).expanduser() if server.cwd else None
    command, *args = example_server() if server.command == EXAMPLES else (server.command, *server.args)
    if sys.platform == "win32":  # pragma: no cover
        log = tempfile.TemporaryFile("w+b")  # noqa: SIM115
        command = get_windows_executable_command(command)  # npx is npx.cmd
        process = await create_windows_process(command, args, env, log, cwd)  # type: ignore[arg-type]

        def tail() -> bytes:
            with log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - MOST_LINES * LONGEST_LINE))
                return log.read()

        return process, tail
    command = os.path.expanduser(command)
    return await anyio.open_process([command, *args], env=env, cwd=cwd, start_new_session=True), None


def example_server() -> list[str]:
    """Returns the command of the server of the example tools: Python, or in a bundle the program itself."""
    if getattr(sys, "frozen", False):
        return [sys.executable, EXAMPLES_OPTION]
    return [sys.executable, "-P", "-m", "engine.tools.example_server"]


def _unless_closed() -> contextlib.suppress:
    return contextlib.suppress(*GONE)


def _stream(pipe: Any) -> Any:
    assert pipe is not None, "programs are started with pipes"
    return pipe


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields lines with their ends; the last may have none.

    Raises:
        SafelightError: one is longer than ``MOST_MESSAGE``.
    """
    held = bytearray()
    async for data in chunks:
        start = len(held)
        held += data
        while (end := held.find(b"\n", start)) >= 0:
            yield bytes(held[: end + 1])
            del held[: end + 1]
            start = 0
        if len(held) > MOST_MESSAGE:
            raise SafelightError(f"it sent a message of more than {_spoken_size(MOST_MESSAGE)}")
    if held:
        yield bytes(held)


def count_values(line: bytes) -> int:
    """Returns about how many values a line of JSON has, before any is made."""
    plain = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = plain.count(b'"')
    if quotes > 4 * MOST_VALUES:  # two texts of a member; too many to look between them
        return quotes // 4
    between = b"".join(plain.split(b'"')[::2])
    return sum(between.count(sign) for sign in (b",", b"[", b"{"))


def check_values(count: int) -> None:
    """
    Raises:
        SafelightError: they are too many for a message.
    """
    if count > MOST_VALUES:
        raise SafelightError(f"it sent a message of more than {MOST_VALUES:,} values")


async def _end(process: Any) -> None:
    """Closes a program's input, ends it if it does not end by itself, and ends what it has left."""
    with _unless_closed():
        await _stream(process.stdin).aclose()
    has_ended = await _has_ended(process, LEAVE_SECONDS)
    if sys.platform != "win32":
        await terminate_posix_process_tree(process, KILL_SECONDS)
    elif not has_ended:  # pragma: no cover
        await terminate_windows_process_tree(process)
    await _has_ended(process, KILL_SECONDS)
    if sys.platform == "win32":  # pragma: no cover
        close_process_job(process)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            with _unless_closed():
                await pipe.aclose()
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:  # else it stays open while a child of the program holds a pipe
        with contextlib.suppress(PermissionError):
            transport.close()


async def _has_ended(process: Any, seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(0.01)
    return process.returncode is not None


def message_of(line: bytes) -> SessionMessage | Exception:
    """Reads a line as a message; what is none is returned as an error, since many programs write logs there."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError as error:
        return error
    return with_right_tools(SessionMessage(message))


def with_right_tools(message: SessionMessage) -> SessionMessage:
    """Changes a list of tools in place: removes the schemas of results, and what would make the whole list invalid."""
    result = getattr(message.message, "result", None)
    found = result.get("tools") if isinstance(result, dict) else None
    tools = found if isinstance(found, list) else []
    for place, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, dict) else None
        if isinstance(tool, dict):
            tool.pop("outputSchema", None)
        try:
            one = {"tools": [tool]}
            validate_server_result("tools/list", "2025-11-25", one)
            types.ListToolsResult.model_validate(one, by_name=False)
        except ValueError:
            said = name if isinstance(name, str) else f"tool {place + 1}"
            tools[place] = {"name": said, "inputSchema": {"type": "object"}, "_meta": {LEFT_OUT: True}}
    return message


@asynccontextmanager
async def address(server: ToolServer, ended: Callable[[str], None]) -> AsyncGenerator[Streams, None]:
    """Connects to a server by Streamable HTTP for as long as the context is open.

    Args:
        ended: called with the reason when the server refuses its key, or has sent more than it may.
    """
    timeout = httpx2.Timeout(HTTP_SECONDS, read=None)  # a call has a time limit of its own
    allowance, next_stream = Allowance(), 0.0
    headers = {"Accept-Encoding": "identity", **dict(server.headers)}

    async def pause(request: httpx2.Request) -> None:
        nonlocal next_stream
        if request.method == "GET":
            start, now = next_stream, time.monotonic()
            next_stream = max(start, now) + RECONNECT_SECONDS
            await anyio.sleep(max(0.0, start - now))

    async def check(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.get("content-encoding", "identity") != "identity":  # it may unpack without end
            raise httpx2.ReadError("it sent a packed answer, which was not asked for")
        if response.status_code == 401:
            has_key = any(name.lower() == "authorization" for name, _ in server.headers)
            refusal = KEY_REFUSED if has_key else KEY_NEEDED
            ended(refusal)
            raise httpx2.ReadError(refusal)
        response.stream = _Messages(response, allowance, ended)

    try:
        made = httpx2.AsyncClient(
            verify=httpx2.create_ssl_context(),
            headers=headers,
            timeout=timeout,
            event_hooks={"request": [pause], "response": [check]},
            trust_env=server.is_remote,  # proxies
        )
    except (ValueError, ImportError, httpx2.InvalidURL):  # without their packages some are not spoken
        raise SafelightError(f"cannot be reached: {proxy_error()}") from None
    async with (
        made as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MOST_MESSAGE) as streams,
    ):
        read_stream, write_stream = streams
        into, filtered = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def read() -> None:
            async with into:
                async for message in read_stream:
                    await into.send(message if isinstance(message, Exception) else with_right_tools(message))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            try:
                yield filtered, write_stream
            finally:
                filtered.close()
                group.cancel_scope.cancel()


class _Messages(httpx2.AsyncByteStream):
    """Ends an answer that is longer or has more values than a message may; of a stream each event may be so long."""

    def __init__(self, response: httpx2.Response, allowance: Allowance, ended: Callable[[str], None]) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._inner, self._allowance, self._ended = response.stream, allowance, ended
        kind = response.headers.get("content-type", "").lower()
        self._is_stream = (  # all others are read as a whole
            response.status_code == 200
            and response.request.method in ("GET", "POST")
            and kind.startswith("text/event-stream")
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = values = 0
        try:
            async for line in _lines(aiter(self._inner)):
                if self._is_stream and line in (b"\n", b"\r\n"):  # an event ends
                    self._allowance.take(size)
                    size = values = 0
                size, values = size + len(line), values + count_values(line)
                if size > MOST_MESSAGE:
                    raise SafelightError(f"it sent a message of more than {_spoken_size(MOST_MESSAGE)}")
                check_values(values)
                yield line
        except SafelightError as error:
            self._ended(str(error))
            raise httpx2.ReadError(str(error)) from None

    async def aclose(self) -> None:
        await self._inner.aclose()


def _spoken_size(size: int) -> str:
    return f"{size // 2**20} MB" if size >= 2**20 else f"{size // 2**10} kB"
