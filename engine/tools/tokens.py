"""The store of what servers gave at a sign-in. Knows no protocol."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ToolTokens(Protocol):
    """Stores a text for the identity of a server. Both methods may wait for the user, and are called in any thread."""

    def read(self, identity: str) -> str:
        """Returns the text of a server; empty if there is none."""

    def write(self, identity: str, text: str) -> None:
        """Stores the text of a server; an empty one removes it."""


class PassingTokens:
    """A store that lasts as long as the process."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def read(self, identity: str) -> str:
        return self._texts.get(identity, "")

    def write(self, identity: str, text: str) -> None:
        self._texts[identity] = text


async def apart(work: Callable[[], T]) -> T:
    """Runs work in a daemon thread: a keyring that asks for a password must not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="safelight-tool-tokens", daemon=True).start()
    return await done
