"""Requests to a real server of the skills model, damaged anywhere between their first byte and their last value."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.hostile.kind import Attempt, Kind
from tests.hostile.server_requests import GOOD, damaged_request

if TYPE_CHECKING:
    from engine.service import Scheduler

SECONDS = 8.0  # that an answer may take: those of the server's own limits together, and some
LIMITS = {"header_seconds": 1.0, "body_seconds": 0.5, "send_seconds": 1.0, "request_seconds": 2.0}
MAX_SENTENCE = 2_000
FINE = frozenset({501})  # of those above 499: embeddings are not served
TIMES = frozenset({"timeout", "cancelled"})  # the codes of a 503 that a long run may end in
SENTENCES = {"timeout": "took longer than", "cancelled": "was cancelled"}
LINES = "application/x-ndjson"


class _Complaints(logging.Handler):
    """Collects what is logged, but for uvicorn's words on connections that were broken off, and what threads die of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or not record.name.startswith("uvicorn"):
            self.said.append(logging.Formatter().format(record)[-800:])

    def take(self) -> list[str]:
        """Returns what came since the last call."""
        taken, self.said = self.said, []
        return taken


_open = contextlib.ExitStack()  # until the process ends


@cache
def _subject() -> tuple[int, Scheduler, _Complaints]:
    """The port of a server that runs until this process ends, and what is behind it."""
    from engine.service import LocalBackend
    from tests.engine.server.served import serving

    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    threading.excepthook = lambda args: complaints.said.append(f"a thread died of {args.exc_value!r}")
    sys.unraisablehook = lambda args: complaints.said.append(f"nobody could raise {args.exc_value!r}")
    served = _open.enter_context(serving(LocalBackend(), "safelight-mini", **LIMITS))
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # usually it says nothing at all
    return urlsplit(served.server.url).port or 0, served.scheduler, complaints


# --- what comes back --------------------------------------------------------------------------------------------------


def _code(error: Any) -> Any:
    """The word of an error; Anthropic's and Ollama's have none, and their sentences stand for it."""
    if isinstance(error, dict) and "code" in error:
        return error["code"]
    said = error if isinstance(error, str) else error["message"]
    return next((word for word, part in SENTENCES.items() if part in said), said)


def _judge(response: HTTPResponse, said: bytes) -> str:
    """Returns what is wrong with an answer; empty where nothing is."""
    kind = response.getheader("content-type") or ""
    if response.status >= 500 and response.status not in FINE:
        code = _code(json.loads(said)["error"]) if "json" in kind else None
        return "" if response.status == 503 and code in TIMES else f"{response.status}: {said[:500]!r}"
    if response.status >= 400 and said:
        error = json.loads(said)["error"]
        sentence = error if isinstance(error, str) else error["message"]  # a text in Ollama's format
        is_line = isinstance(sentence, str) and 0 < len(sentence) <= MAX_SENTENCE and "\n" not in sentence
        return "" if is_line and "Traceback" not in sentence else f"no sentence: {said[:500]!r}"
    if kind.startswith("text/event-stream"):
        for line in said.splitlines():
            if line.startswith(b"data: {"):
                error = json.loads(line[6:]).get("error")
                if error and _code(error) not in TIMES:
                    return f"in its stream: {line[:500]!r}"
    elif kind.startswith(LINES):
        for line in said.splitlines():
            error = json.loads(line).get("error")
            if error and _code(error) not in TIMES:
                return f"in its lines: {line[:500]!r}"
    elif "json" in kind and said:
        json.loads(said)
    return ""


def _answer(connection: socket.socket, method: str) -> str:
    response = HTTPResponse(connection, method=method)
    try:
        response.begin()
        said = response.read()
    except TimeoutError:
        return f"no answer in {SECONDS:g} seconds"
    except (OSError, HTTPException):  # closed: it was no HTTP, or more than is read
        return ""
    return _judge(response, said)


def _make(random: Random, _folder: Path) -> Attempt:
    port, scheduler, complaints = _subject()
    from tests.engine.server.served import KEY

    data = damaged_request(random, port, KEY)
    pieces = random.choice((1, 1, 1, 2, 5))
    leaves = random.random() < 0.1
    checks_run = random.random() < 0.1

    def attempt() -> None:
        problem = ""
        with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
            size = max(1, -(-len(data) // pieces))
            with contextlib.suppress(OSError):  # it may refuse before all is sent
                for start in range(0, len(data), size):
                    connection.sendall(data[start : start + size])
            if not leaves:
                problem = _answer(connection, data[:5].decode("latin-1").split(" ")[0])
        assert not problem, problem
        _check_goes_on(port, scheduler, KEY, runs=checks_run)
        said = complaints.take()
        assert not said, f"it was logged: {said[0]}"

    return attempt


def _check_goes_on(port: int, scheduler: Scheduler, key: str, *, runs: bool) -> None:
    """No run is left, and the next good request is answered."""
    _until(lambda: scheduler.running == scheduler.waiting == 0, "a run is left behind")
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    path, raw = (
        GOOD[0] if runs else ("/safelight/v1/tokens/count", {"messages": [{"role": "user", "content": "hello"}]})
    )
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(raw), headers)
    response = connection.getresponse()
    said = response.read()
    connection.close()
    assert response.status == 200, f"the next request is answered with {response.status}: {said[:300]!r}"


def _until(holds: Callable[[], bool], problem: str) -> None:
    ends = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < ends, problem
        time.sleep(0.005)


KINDS = (Kind("server", _make, prepare=lambda: _subject() and None),)
