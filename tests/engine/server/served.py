"""A real server over the skills model, in this process: for tests that ask it as a client does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.server.options import ServerOptions
from engine.server.running import RunningServer
from engine.service import LoadFailed, LoadRequest, LocalBackend, ModelLoaded, Scheduler, ServiceReply

KEY = "a-key-of-this-test"
NAME = "safelight-skills"


@dataclass(frozen=True)
class Served:
    """A server with what is behind it."""

    server: RunningServer
    scheduler: Scheduler

    @property
    def url(self) -> str:
        """With the version's path, as clients are told it."""
        return f"{self.server.url}/v1"

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])


class _Loaded:
    """An ``Outlet`` that waits for a model."""

    is_full = False

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.problem = ""

    def put(self, reply: ServiceReply) -> None:
        if isinstance(reply, LoadFailed):
            self.problem = reply.message
        if isinstance(reply, LoadFailed | ModelLoaded):
            self.is_over.set()


@contextmanager
def served(**options: Any) -> Iterator[Served]:
    """``options`` as in ``ServerOptions``."""
    scheduler, loaded = Scheduler(LocalBackend()), _Loaded()
    server = RunningServer(scheduler, ServerOptions(**{"api_key": KEY, **options}))
    try:
        scheduler.load(LoadRequest(NAME, NAME), loaded)
        assert loaded.is_over.wait(60), "the model does not load"
        assert not loaded.problem, loaded.problem
        server.start()
        yield Served(server, scheduler)
    finally:
        server.stop()
        scheduler.close()
    assert not server.is_running
    assert not scheduler.is_alive
