"""The answer to the first message of ``safelight mcp``, before anything else is imported.

Programs wait half a second for it; the imports take several. It is what the protocol's library answers, which gets the
message later, too, and whose answer is then left out (``engine.server.mcp.lines``).
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from importlib.metadata import version
from typing import Any

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # of the protocol, the newest last
INSTRUCTIONS = (
    "Safelight runs a language model on this computer. It is a diffusion model: it writes a block of text at once, as "
    "a draft that becomes surer step by step. Nothing is sent anywhere, and nothing on the computer is changed. "
    "inspect_run shows how an answer of another tool came about."
)
MOST = 65_536  # bytes of the message

_greeting: Greeting | None = None


def begin() -> None:
    """Starts to wait for the message; not on Windows, where a wait for a pipe cannot end."""
    global _greeting
    if sys.platform != "win32" and sys.stdin is not None and not sys.stdin.isatty():
        _greeting = Greeting(0, 1)


def end() -> tuple[bytes, int | str | None]:
    """Stops waiting; returns what was read, and the id of the message that was answered, if one was."""
    return (b"", None) if _greeting is None else _greeting.end()


class Greeting:
    """Waits for the first line of a descriptor, and answers it on another if it is the protocol's first message."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = os.dup(source), os.dup(sink)  # the command makes the first ones others
        self._woken, self._waker = os.pipe()
        self._read = b""
        self._answered: int | str | None = None
        self._thread = threading.Thread(target=self._greet, name="safelight-greeting", daemon=True)
        self._thread.start()

    def end(self) -> tuple[bytes, int | str | None]:
        """Stops waiting; see ``end`` of this file."""
        os.write(self._waker, b".")
        self._thread.join()
        for descriptor in (self._source, self._sink, self._woken, self._waker):
            os.close(descriptor)
        return self._read, self._answered

    def _greet(self) -> None:
        while b"\n" not in self._read and len(self._read) < MOST:
            ready, _, _ = select.select([self._source, self._woken], [], [])
            part = os.read(self._source, MOST) if self._source in ready else b""
            if not part:
                return
            self._read += part
        asked = _asked(self._read.partition(b"\n")[0])
        if asked is None:
            return
        answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result_for(asked["params"])}) + "\n"
        try:
            os.write(self._sink, answer.encode())  # a pipe takes it as a whole: nothing was written before
        except OSError:
            return
        self._answered = asked["id"]


def result_for(params: dict[str, Any]) -> dict[str, Any]:
    """Returns the result of ``initialize``."""
    wanted = params["protocolVersion"]
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "safelight", "title": "Safelight", "version": version("safelight")},
        "instructions": INSTRUCTIONS,
    }


def _asked(line: bytes) -> dict[str, Any] | None:
    """Returns the message if it is one that is answered here."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match found:
        case {
            "jsonrpc": "2.0",
            "id": int() | str() as number,
            "method": "initialize",
            "params": {
                "protocolVersion": str(),
                "capabilities": dict(),
                "clientInfo": {"name": str(), "version": str()},
            },
        } if not isinstance(number, bool):
            return dict(found)
    return None
