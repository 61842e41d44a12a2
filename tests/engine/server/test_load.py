"""A slice of ``tests/bench/server_load.py``: many clients at once, good ones, bad ones, and those who leave."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

import psutil

from tests.bench.load_mix import Mix
from tests.bench.server_load import ask, find_stuck, handles, has_routes, storm
from tests.engine.server.served import KEY, ScriptedEngine, serving, within

REQUESTS, CLIENTS = 60, 8


def test_nothing_is_left_of_a_crowd() -> None:
    process = psutil.Process()
    with serving(ScriptedEngine()) as served:
        mix = has_routes(Mix(urlsplit(served.server.url).port or 0, KEY, model="scripted"))
        assert ask(mix, "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200  # whatever is made once is made
        opened, threads = handles(process), threading.active_count()
        told = storm(mix, REQUESTS, CLIENTS, seed=3)
        assert not told.problems + find_stuck(mix)
        assert told.outcomes.total() == REQUESTS
        assert len(told.outcomes) > 10
        assert told.tokens
        assert within(lambda: served.scheduler.running == served.scheduler.waiting == 0)
        assert within(lambda: {one.state for one in served.server.live.snapshot()} <= {"finished", "cancelled"})
        assert within(lambda: handles(process) <= opened)
        assert threading.active_count() <= threads + 6  # of the pool that counts tokens
