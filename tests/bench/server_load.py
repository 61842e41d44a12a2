"""``safelight serve`` under load: ``python -m tests.bench.server_load --requests 2000 --clients 32 --seed 0``.

Clients over loopback send a random mix of good requests and bad ones, and leave at random. Afterwards nothing may be
left of them: every request has its answer or its refusal, no run is stuck, memory, handles and threads are what they
were after as many requests before, and nothing that was written holds a traceback or the text of a prompt. Exits with 1
and says which of these failed. Latencies depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.bench.load_mix import SECRET, Mix
from tests.bench.visits import Tally, work

MOST_GROWTH = 0.05  # of memory, handles and threads, as a share
SETTLE_SECONDS = 20.0  # in which what was left behind must be gone
START_SECONDS = 120.0


@dataclass(frozen=True)
class Held:
    """What a process has at a moment."""

    memory: int  # bytes that are resident
    handles: int
    threads: int


def storm(mix: Mix, requests: int, clients: int, seed: int) -> Tally:
    """So many visits from so many clients at once."""
    plans = [
        [mix.draw(Random(f"{seed}:{number}")) for number in range(first, requests, clients)] for first in range(clients)
    ]
    tallies: list[Tally] = []
    threads = [
        threading.Thread(target=lambda one=one, n=n: tallies.append(work(mix.port, one, Random(f"{seed}-{n}"))))
        for n, one in enumerate(plans)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = Tally()
    for tally in tallies:
        total.add(tally)
    seen = total.outcomes.total() + len(total.problems)
    if seen != requests:
        total.problems.append(f"{requests - seen} of {requests} requests came to no end")
    return total


def ask(mix: Mix, path: str, raw: Mapping[str, Any] | None = None) -> tuple[int, str]:
    """Status and text of one good request."""
    connection = HTTPConnection("127.0.0.1", mix.port, timeout=60)
    headers = {"Authorization": f"Bearer {mix.key}", "Content-Type": "application/json"}
    try:
        connection.request(
            "POST" if raw is not None else "GET", path, None if raw is None else json.dumps(raw), headers
        )
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def find_stuck(mix: Mix) -> list[str]:
    """What keeps a new request from its answer."""
    status, text = ask(mix, "/v1/chat/completions", {"messages": [{"role": "user", "content": "What is 2 + 2?"}]})
    return [] if status == 200 else [f"a new request is answered with {status}: {text[:200]}"]


def has_routes(mix: Mix) -> Mix:
    """With the paths that not every version has."""
    optional = ("/v1/responses",)
    return replace(mix, paths=frozenset(path for path in optional if ask(mix, path, {})[0] != 404))


@contextmanager
def serving(home: Path) -> Iterator[tuple[subprocess.Popen[str], Mix]]:
    """The server in a process of its own, whose files are all in ``home``."""
    names = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
    env = os.environ | {name: str(home / name.lower()) for name in names} | {"HOME": str(home)}
    said, complained = (home / name for name in ("stdout.txt", "stderr.txt"))
    with said.open("w") as out, complained.open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve", "--json"], env=env, stdout=out, stderr=err, text=True
        )
    try:
        ends = time.monotonic() + START_SECONDS
        while not said.read_text().strip().endswith("}"):
            if process.poll() is not None or time.monotonic() > ends:
                raise SystemExit(f"the server did not start: {complained.read_text()[-2_000:]}")
            time.sleep(0.1)
        told = json.loads(said.read_text())
        yield process, has_routes(Mix(int(told["url"].rpartition(":")[2]), told["api_key"]))
    finally:
        process.terminate()
        process.wait(30)


def held(process: subprocess.Popen[str], before: Held | None = None) -> Held:
    """What the server has; asked again for a while where it is more than before, as connections take time to end."""
    watched = psutil.Process(process.pid)
    ends = time.monotonic() + SETTLE_SECONDS
    while True:
        now = Held(watched.memory_info().rss, handles(watched), watched.num_threads())
        if before is None or not growth(before, now) or time.monotonic() > ends:
            return now
        time.sleep(0.25)


def handles(process: psutil.Process) -> int:
    """How many files, sockets and the like a process has open."""
    return int(process.num_handles() if sys.platform == "win32" else process.num_fds())


def growth(before: Held, after: Held) -> list[str]:
    """What has grown by more than it may."""
    pairs = {
        "memory": (before.memory, after.memory),
        "open handles": (before.handles, after.handles),
        "threads": (before.threads, after.threads),
    }
    return [
        f"{name} grew from {old:,} to {new:,}" for name, (old, new) in pairs.items() if new > old * (1 + MOST_GROWTH)
    ]


def find_words(home: Path) -> list[str]:
    """Tracebacks and prompts in anything that the server wrote."""
    found = []
    for path in sorted(home.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        found += [f"{path.name} has {word!r}" for word in ("Traceback", SECRET) if word.encode() in data]
    return found


def run(requests: int, clients: int, seed: int) -> dict[str, Any]:
    """The whole measurement; ``problems`` is empty where all is well."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        with serving(home) as (process, mix):
            warm = storm(mix, requests, clients, seed + 1)
            problems = [*warm.problems, *find_stuck(mix)]
            before = held(process)
            began = time.perf_counter()
            tally = storm(mix, requests, clients, seed)
            seconds = time.perf_counter() - began
            problems += [*tally.problems, *find_stuck(mix)]
            after = held(process, before)
            problems += growth(before, after)
        problems += find_words(home)
        if process.returncode not in (0, -15):
            problems.append(f"the server ended with {process.returncode}")
    return {
        "requests": requests, "clients": clients, "seed": seed, "seconds": round(seconds, 1),
        "requests_per_second": round(requests / seconds, 1),
        "outcomes": dict(sorted(tally.outcomes.items())),
        "milliseconds": {name: _milliseconds(found) for name, found in sorted(tally.seconds.items())},
        "first_text_milliseconds": _milliseconds(tally.first_seconds),
        "memory_mb": [round(one.memory / 1e6, 1) for one in (before, after)],
        "handles": [before.handles, after.handles], "threads": [before.threads, after.threads],
        "problems": problems,
    }  # fmt: skip


def _milliseconds(seconds: list[float]) -> dict[str, int]:
    """Half of them took no longer than p50, 95 of 100 no longer than p95."""
    shares = statistics.quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else [*seconds, 0.0] * 19
    return {"count": len(seconds), "p50": round(1000 * shares[9]), "p95": round(1000 * shares[18])}


def main() -> int:
    """Print the figures; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="measured; as many come before them")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    told = run(options.requests, options.clients, options.seed)
    if options.json:
        print(json.dumps(told))
    else:
        for name, value in told.items():
            if isinstance(value, dict):
                print(f"{name}:")
                for inner, count in value.items():
                    print(f"    {inner:<26}{count}")
            elif name != "problems":
                print(f"{name}: {value}")
    for problem in told["problems"]:
        print(problem, file=sys.stderr)
    return 1 if told["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
