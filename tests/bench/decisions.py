"""Decisions a second from one client that keeps its connections, over the embedded model.

    python -m tests.bench.decisions [SECONDS]

The client is a process of its own, on the same machine. Each request is about another state, but where it says.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from engine.catalog import DECIDER
from engine.service import LocalBackend
from tests.engine.server.served import KEY, serving

ASKED = "Is the first number the larger one?"


@dataclass(frozen=True)
class Way:
    """How it is asked: requests at once, questions a request."""

    name: str
    clients: int = 1
    questions: int = 1
    same: bool = False  # the state; the question is another one each time

    def body(self, number: int) -> dict[str, Any]:
        """Of a request to ``/v1/decisions``."""
        state, asked = f"{number} and 4711", ASKED
        if self.same:
            state, asked = "12 apples, 7 pears and 4711 plums are in the box.", f"Are there {number} fruits in it?"
        texts = [asked, *(f"Is one of them larger than {5 * place}?" for place in range(1, self.questions))]
        questions = [{"type": "predicate", "instructions": text} for text in texts]
        return {"input": state, "questions": questions}


WAYS = (
    Way("one question a request, one request at a time"),
    Way("one question a request, about the same state", same=True),
    Way("one question a request, eight requests at once", clients=8),
    Way("eight questions a request, read singly", questions=8),
    Way("eight questions a request, read singly, four requests at once", clients=4, questions=8),
)


def ask(port: int, way: Way, thread: int, until: float, spent: list[float]) -> None:
    """Ask again and again; notes the seconds that each request took."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    number = 1_000 * thread
    while time.perf_counter() < until:
        number += 1
        began = time.perf_counter()
        connection.request("POST", "/v1/decisions", json.dumps(way.body(number)), headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise SystemExit(data.decode())
        spent.append(time.perf_counter() - began)
    connection.close()


def measure(port: int, way: Way, seconds: float, report: Any) -> None:
    """One way, in the client's process; reports requests, the seconds that they took together, and the median."""
    for span in (min(1.0, seconds / 4), seconds):  # the first warms
        spent: list[float] = []
        report.send(None)
        began = time.perf_counter()
        threads = [
            threading.Thread(target=ask, args=(port, way, thread, began + span, spent)) for thread in range(way.clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        report.send((len(spent), time.perf_counter() - began, sorted(spent)[len(spent) // 2]))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    context = multiprocessing.get_context("spawn")
    print("decisions/s   ms a request   ms of a core a decision, in the server")
    with serving(LocalBackend(), DECIDER) as served:
        port = int(served.server.url.rpartition(":")[2])
        for way in WAYS:
            heard, report = context.Pipe(duplex=False)
            client = context.Process(target=measure, args=(port, way, seconds, report))
            client.start()
            for _ in range(2):
                heard.recv()
                busy = time.process_time()
                requests, took, median = heard.recv()
                busy = time.process_time() - busy
            client.join()
            count = requests * way.questions
            print(f"{count / took:11.0f}   {1000 * median:12.1f}   {1000 * busy / count:6.1f}   {way.name}", flush=True)


if __name__ == "__main__":
    main()
