"""The page on this machine to which the browser comes back after a sign-in. It is used once."""

from __future__ import annotations

import asyncio
from typing import Self
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from engine.errors import SafelightError

SIGN_IN_SECONDS = 300.0  # for the user, in the browser
HEAD_SECONDS = 10.0  # for the browser to send its request
MOST_HEAD = 16_384  # bytes of a request
MOST_FIELDS = 32  # of an answer
MOST_AT_ONCE = 16  # connections
PATH = "/callback"
HTML = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Safelight</title><p>{said}</p></html>\n'
HEAD = (
    "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n"
    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'\r\n\r\n"
)


class RedirectPage:
    """Listens on a free port of the loopback address for as long as the context is open, or until it has its answer."""

    def __init__(self) -> None:
        self.address = ""
        self._answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0, limit=MOST_HEAD)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def answer(self) -> AuthorizationCodeResult:
        """Waits for the browser. Whoever calls this checks the answer's state.

        Raises:
            SafelightError: nobody came in time, or the sign-in was refused.
        """
        try:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                found = await self._answered
        except TimeoutError:
            raise SafelightError(f"was not signed in to within {SIGN_IN_SECONDS / 60:.0f} minutes") from None
        finally:
            if self._server is not None:
                self._server.close()
        if "code" not in found:
            raise SafelightError(f"refused the sign-in: {found['error'][:60]}")
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) <= MOST_AT_ONCE:
                async with asyncio.timeout(HEAD_SECONDS):
                    found = _read((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0])
                    writer.write(_page(found))
                    await writer.drain()
                if found is not None and not self._answered.done():
                    self._answered.set_result(found)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)


def _read(line: bytes) -> dict[str, str] | None:
    """Returns the fields of an answer; None if the request is none."""
    try:
        method, target, _ = line.decode("ascii").split(" ")
        parts = urlsplit(target)
        fields = parse_qs(parts.query, max_num_fields=MOST_FIELDS)
    except ValueError:
        return None
    found = {name: values[0] for name, values in fields.items()}
    is_answer = method == "GET" and parts.path == PATH and ("code" in found or "error" in found)
    return found if is_answer else None


def _page(found: dict[str, str] | None) -> bytes:
    if found is None:
        status, said = "404 Not Found", "There is nothing here."
    elif "code" in found:
        status, said = "200 OK", "Safelight has the answer. You can close this tab."
    else:
        status, said = "200 OK", "The sign-in was refused. You can close this tab."
    body = HTML.format(said=said).encode()
    return HEAD.format(status=status, length=len(body)).encode() + body
