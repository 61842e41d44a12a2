"""The scheduler under any schedule: runs, cancels, deaf clients, loads, adapters and faults, from several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

import engine.service.scheduler as scheduler_module
from engine import GenerationConfig
from engine.service import (
    AdapterChanged,
    AdapterRequest,
    BusyError,
    Capabilities,
    ChatRun,
    LoadRequest,
    ModelUnloaded,
    PassWanted,
    RunAdvanced,
    RunEnded,
    RunRequest,
    RunSteps,
    Scheduler,
)
from tests.engine.service.test_scheduler import MESSAGES, Ear, Worded

CLIENTS, REQUESTS = 3, 5


class Careless(Worded):
    """Runs of ``seed`` passes. Any of its parts may fail, as an engine's may; it notes what happens, and in what order.

    Called from the scheduler's thread alone.
    """

    def __init__(self, random: Random, together: int) -> None:
        super().__init__()
        self.capabilities = Capabilities(parallel_runs=together)
        self._random, self._together = random, together
        self._active: set[str] = set()
        self.begun: list[str] = []
        self.faults: list[str] = []  # what the scheduler must not do

    def load(self, request: LoadRequest, report: Callable[[Any], None]) -> None:
        self._stands_alone("a load")
        super().load(request, report)

    def unload(self) -> ModelUnloaded:
        self._stands_alone("an unload")
        return super().unload()

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        self._stands_alone("an adapter")
        return super().set_adapter(request)

    def admits(self, request: RunRequest, running: Sequence[RunRequest]) -> bool:
        return len(running) < self._together and super().admits(request, running)

    def begin(self, request: RunRequest) -> RunSteps:
        self.begun.append(request.run_id)
        if self._random.random() < 0.05:
            raise KeyError("a fault before it began")
        return self._steps(request)

    def _steps(self, request: RunRequest) -> Iterator[Any]:
        self._active.add(request.run_id)
        if len(self._active) > self._together:
            self.faults.append("too many at once")
        try:
            for reply in super().begin(request):
                yield reply
                if isinstance(reply, RunAdvanced):
                    yield from [reply] * self._random.choice((0, 0, 19))
                    if self._random.random() < 0.02:
                        raise KeyError("a fault during it")
        finally:
            self._active.discard(request.run_id)

    def perform(self, passes: Sequence[PassWanted]) -> None:
        ids = [wanted.what for wanted in passes]
        if len(set(ids)) < len(ids) or any(wanted.is_done for wanted in passes):
            self.faults.append("a pass twice")
        for wanted in passes:
            if self._random.random() < 0.03:
                raise ArithmeticError("it does not add up")
            wanted.is_done = True

    def _stands_alone(self, what: str) -> None:
        if self._active:
            self.faults.append(f"{what} during a run")


class Client:
    """One thread's requests; at times it is deaf for a while, at times for ever."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self._scheduler, self._random = scheduler, random
        self.asked: list[tuple[RunRequest, Ear]] = []

    def work(self) -> None:
        for _ in range(REQUESTS):
            match self._random.randrange(12):
                case 0:
                    self._scheduler.load(LoadRequest("there", "There"), Ear())
                case 1:
                    self._scheduler.unload(Ear())
                case 2:
                    self._scheduler.set_adapter(AdapterRequest("some"), Ear())
                case 3 | 4 if self.asked:
                    self._random.choice(self.asked)[0].cancel.set()
                    if self._random.random() < 0.9:  # else it is found soon
                        self._scheduler.wake()
                case 5 if self.asked:
                    self._random.choice(self.asked)[1].most += 1_000
                    self._scheduler.wake()
                case _:
                    self._ask()

    def _ask(self) -> None:
        adapter = self._random.choice((None, None, "some"))
        request = ChatRun(GenerationConfig(), self._random.randrange(6), MESSAGES, adapter=adapter)
        if self._random.random() < 0.1:
            request.cancel.set()
        ear = Ear(self._random.choice((10**9, 10**9, 10**9, 3)))
        try:
            self._scheduler.run(request, ear, self._random.choice((None, None, 4)))
        except BusyError:
            return
        self.asked.append((request, ear))


@pytest.mark.parametrize("schedules", [range(40), pytest.param(range(40, 240), marks=pytest.mark.slow)])
def test_any_schedule_ends_every_run_once_and_in_order(schedules: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "POLL_SECONDS", 0.001)  # cancels without a word are found sooner
    begun = ended = 0
    for seed in schedules:
        random = Random(seed)
        backend = Careless(random, random.choice((1, 2, 4)))
        scheduler = Scheduler(backend)
        clients = [Client(scheduler, Random(f"{seed}:{number}")) for number in range(CLIENTS)]
        threads = [threading.Thread(target=client.work) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = [found for client in clients for found in client.asked]
        if random.random() < 0.5:  # nobody is deaf any more, and all ends by itself
            for _, ear in asked:
                ear.most = 10**9
            scheduler.wake()
            assert all(ear.has_ended.wait(10) for _, ear in asked), f"schedule {seed}: a run is stuck"
        assert scheduler.close(), f"schedule {seed}: its thread did not end"
        assert not backend.faults, f"schedule {seed}: {backend.faults}"
        for request, ear in asked:
            assert sum(isinstance(reply, RunEnded) for reply in ear.heard) == 1, f"schedule {seed}"
            assert isinstance(ear.heard[-1], RunEnded)
            assert {reply.run_id for reply in ear.heard} == {request.run_id}
        for client in clients:  # of one thread, none overtakes another
            order = [request.run_id for request, _ in client.asked if request.run_id in backend.begun]
            assert order == [id for id in backend.begun if id in set(order)]
        assert scheduler.running == scheduler.waiting == 0
        begun += len(backend.begun)
        ended += len(asked)
    assert len(schedules) < begun < ended
