"""A server of the embedded skills model on the loopback interface."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest

from engine import SKILLS
from engine.server.options import ServerOptions
from engine.server.running import RunningServer
from engine.service import LoadFailed, LoadRequest, LocalBackend, ModelLoaded, Scheduler, ServiceReply

KEY = "quite-a-key"


@dataclass(frozen=True)
class Served:
    """A server, its backend's scheduler, and a client that has the key."""

    url: str
    key: str
    scheduler: Scheduler
    server: RunningServer
    client: httpx2.Client


class Loading:
    """An outlet that waits for a model."""

    is_full = False

    def __init__(self) -> None:
        self.ended = threading.Event()

    def put(self, reply: ServiceReply) -> None:
        if isinstance(reply, ModelLoaded | LoadFailed):
            self.ended.set()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    scheduler, loading = Scheduler(LocalBackend()), Loading()
    server = RunningServer(scheduler, ServerOptions(api_key=KEY))
    try:
        scheduler.load(LoadRequest(SKILLS, "Safelight Skills"), loading)
        assert loading.ended.wait(60)
        server.start()
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx2.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as client:
            # The server's own threads begin with their first work, and end with the server.
            counted = client.post("/safelight/v1/tokens/count", json={"messages": [{"role": "user", "content": "a"}]})
            assert counted.json()["tokens"] > 0
            yield Served(server.url, KEY, scheduler, server, client)
    finally:
        server.stop()
        assert scheduler.close()
