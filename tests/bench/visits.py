"""A client's visits to a server, and what became of them."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from random import Random
from typing import Any

from tests.bench.load_mix import BUSY, Visit

SECONDS = 120.0  # that an answer may take, with everybody else's before it
RESET = struct.pack("ii", 1, 0)  # closing drops the connection at once, instead of in order


@dataclass
class Tally:
    """What became of the visits of one client, or of all."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)  # of the visits that ended with an answer
    first_seconds: list[float] = field(default_factory=list)  # up to the first text of a stream
    tokens: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count another's visits, too."""
        self.outcomes += other.outcomes
        for name, seconds in other.seconds.items():
            self.seconds.setdefault(name, []).extend(seconds)
        self.first_seconds += other.first_seconds
        self.tokens += other.tokens
        self.problems += other.problems


def visit(port: int, plan: Visit, random: Random, tally: Tally) -> None:
    """Make one visit and count what became of it."""
    began = time.perf_counter()
    try:
        with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
            if plan.is_reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            if not _send(connection, plan, random):
                tally.outcomes[plan.name] += 1
                return
            response = HTTPResponse(connection)
            response.begin()
            said = _stream(response, plan, began, tally) if _is_stream(response) else response.read()
    except (OSError, HTTPException) as error:
        if plan.leave == "stays":
            tally.problems.append(f"{plan.name}: no answer, but {type(error).__name__} ({error})")
        else:
            tally.outcomes[plan.name] += 1
        return
    problem = _judge(plan, response, said, tally)
    if problem:
        tally.problems.append(f"{plan.name}: {problem}")
        return
    is_refused = response.status != 200
    tally.outcomes["too many waiting" if response.status == BUSY else plan.name] += 1
    if not is_refused and plan.leave == "stays":
        tally.seconds.setdefault(plan.name, []).append(time.perf_counter() - began)


def _send(connection: socket.socket, plan: Visit, random: Random) -> bool:
    """Send the request as it is planned; False where the client has left then."""
    data = plan.data
    head = data.find(b"\r\n\r\n")
    if plan.leave == "in_head":
        connection.sendall(data[: random.randrange(max(1, head))])
        return False
    if plan.leave == "in_body":
        connection.sendall(data[: random.randrange(head + 4, len(data))])
        return False
    size = -(-len(data) // plan.pieces)
    for start in range(0, len(data), size):
        connection.sendall(data[start : start + size])
        if plan.pieces > 1:
            time.sleep(random.random() * 0.02)
    if plan.leave == "waiting":
        time.sleep(random.choice((0, 0.01, 0.05, 0.2)))
        return False
    return True


def _is_stream(response: HTTPResponse) -> bool:
    return (response.getheader("content-type") or "").startswith("text/event-stream")


def _stream(response: HTTPResponse, plan: Visit, began: float, tally: Tally) -> bytes:
    """A stream up to its end, or up to where the client leaves."""
    lines = []
    for line in _lines(response):
        lines.append(line)
        if len(lines) == 1:
            tally.first_seconds.append(time.perf_counter() - began)
        if plan.leave == "in_stream" and len(lines) > 2:
            break
    return b"".join(lines)


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    while line := response.readline():
        yield line


def _judge(plan: Visit, response: HTTPResponse, said: bytes, tally: Tally) -> str:
    """What is wrong with an answer; empty where nothing is."""
    if response.status not in plan.statuses:
        return f"answered with {response.status}: {said[:200]!r}"
    if plan.leave != "stays":
        return ""
    if response.status != 200:
        error = json.loads(said)["error"]
        return "" if error["message"] and "Traceback" not in error["message"] else f"no sentence in {said[:200]!r}"
    if not _is_stream(response):
        if "json" in (response.getheader("content-type") or ""):
            tally.tokens += _tokens(json.loads(said))
        return ""
    data = [line[6:] for line in said.splitlines() if line.startswith(b"data: ")]
    ends = data and (data[-1] == b"[DONE]" or b"response.completed" in said or b"response.incomplete" in said)
    chunks = [json.loads(one) for one in data if one != b"[DONE]"]
    if not ends or any("error" in chunk and chunk["error"] for chunk in chunks):
        return f"a stream that ends in {said[-300:]!r}"
    tally.tokens += sum(map(_tokens, chunks))
    return ""


def _tokens(raw: Mapping[str, Any]) -> int:
    """Tokens of an answer, as its usage says."""
    usage = raw.get("usage") or (raw.get("response") or {}).get("usage") or {}
    return int(usage.get("completion_tokens") or usage.get("output_tokens") or 0)


def work(port: int, plans: Sequence[Visit], random: Random) -> Tally:
    """One client's visits, one after another."""
    tally = Tally()
    for plan in plans:
        visit(port, plan, random, tally)
    return tally
