"""Several runs of the embedded model at once are, event by event and bit by bit, what each is alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from engine import MINI, GenerationConfig, StepFinished
from engine.decoding.protocols import Denoise
from engine.service import ChatRun, LoadRequest, LocalBackend, PassWanted, RunAdvanced, RunEnded, RunRequest, Scheduler
from engine.service.admission import Admission, CachePool
from tests.engine.service.test_local import plain
from tests.engine.service.test_scheduler import Ear, within

QUICK = GenerationConfig(max_new_tokens=128, max_denoising_steps=5, confidence_threshold=0.0, eos_token_ids=())
SPOILED = 40  # the canvas length of a run that is spoiled
ASKED: dict[str, tuple[str, GenerationConfig, int]] = {
    "two blocks": ("Sort 17 3 42 9.", QUICK, 1),
    "short canvas, pinned": ("abc", QUICK.replace(canvas_length=32, pinned=((3, 40),), max_new_tokens=90), 2),
    "warm, with bans": ("How many letters has tree?", QUICK.replace(t_max=2.0, t_min=1.0, banned_tokens=(5, 6)), 3),
    "long prompt": ("Write this backwards: " + "lighthouse " * 12, QUICK.replace(max_denoising_steps=3), 4),
}


class Watched(LocalBackend):
    """Notes how many passes are performed at once; spoils those of a canvas length."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[int] = []
        self.spoil: Callable[[Denoise], None] | None = None  # before the pass
        self.spoil_after: Callable[[Denoise], None] | None = None
        self.budget = 10**12
        self.need: Callable[[GenerationConfig], int] | None = None

    def perform(self, passes: Sequence[PassWanted]) -> None:
        self.together.append(len(passes))
        found = [one.what for one in passes if isinstance(one.what, Denoise) and len(one.what.canvas) == SPOILED]
        for one in found:
            if self.spoil is not None:
                self.spoil(one)
        super().perform(passes)
        for one in found:
            if self.spoil_after is not None:
                self.spoil_after(one)

    def spare_bytes(self, _model: Any) -> int:
        return self.budget

    def run_bytes(self, model: Any, prompt: int, config: GenerationConfig, running: int) -> int:
        return super().run_bytes(model, prompt, config, running) if self.need is None else self.need(config)


class Stopping(Ear):
    """Cancels its run in the middle of its second block."""

    def __init__(self, request: RunRequest) -> None:
        super().__init__()
        self.request = request

    def put(self, reply: Any) -> None:
        super().put(reply)
        event = getattr(reply, "event", None)
        if isinstance(event, StepFinished) and (event.block_index, event.step) == (1, 1):
            self.request.cancel.set()


@pytest.fixture
def backend() -> Watched:
    made = Watched()
    made.load(LoadRequest(MINI, "Skills"), lambda _: None)
    return made


@pytest.fixture
def scheduler(backend: Watched) -> Iterator[Scheduler]:
    made = Scheduler(backend)
    yield made
    assert made.close()


def request(prompt: str, config: GenerationConfig, seed: int) -> RunRequest:
    return ChatRun(config, seed, ({"role": "user", "content": prompt},))


def told(ear: Ear) -> list[list[Any]]:
    return [plain(reply.event) for reply in ear.heard if isinstance(reply, RunAdvanced)]


def at_once(backend: Watched, scheduler: Scheduler, ears: Sequence[tuple[RunRequest, Ear]]) -> None:
    """Ask for runs before the first begins, and wait for all."""
    backend._caches.clear()  # what is read in other pieces may round differently
    backend.together.clear()
    with scheduler._changed:
        for asked, ear in ears:
            scheduler.run(asked, ear)
    assert all(ear.has_ended.wait(30.0) for _, ear in ears)


def made_requests() -> list[tuple[RunRequest, Ear]]:
    found: list[tuple[RunRequest, Ear]] = []
    for name, asked in ASKED.items():
        one = request(*asked)
        found.append((one, Stopping(one) if name == "two blocks" else Ear()))
    return found


def test_four_runs_at_once_are_what_each_is_alone(backend: Watched, scheduler: Scheduler) -> None:
    alone, together = made_requests(), made_requests()
    for one in alone:
        at_once(backend, scheduler, [one])
        assert set(backend.together) == {1}
    at_once(backend, scheduler, together)
    assert max(backend.together) == 4
    assert [told(ear) for _, ear in together] == [told(ear) for _, ear in alone]
    assert [ear.end.message for _, ear in together] == [""] * 4
    assert [told(ear)[-1][1] for _, ear in together] == ["cancelled", "length", "length", "length"]


def outside(one: Denoise) -> None:
    one.canvas = torch.full((SPOILED,), 10**6)


def non_finite(one: Denoise) -> None:
    assert one.logits is not None
    one.logits[3] = torch.nan


@pytest.mark.parametrize(
    ("moment", "spoil"), [pytest.param("spoil", outside, marks=pytest.mark.slow), ("spoil_after", non_finite)]
)
def test_a_run_that_fails_leaves_the_others_as_they_are(
    moment: str, spoil: Callable[[Denoise], None], backend: Watched, scheduler: Scheduler
) -> None:
    asked = [
        ASKED["short canvas, pinned"],
        ("Count to 9.", QUICK.replace(canvas_length=SPOILED), 5),
        ASKED["long prompt"],
    ]
    alone, together = ([(request(*one), Ear()) for one in asked] for _ in range(2))
    for place in (0, 2):
        at_once(backend, scheduler, [alone[place]])
    setattr(backend, moment, spoil)
    at_once(backend, scheduler, together)
    assert ("vocabulary" if spoil is outside else "non-finite") in together[1][1].end.message
    for place in (0, 2):
        assert told(together[place][1]) == told(alone[place][1])
        assert together[place][1].end.message == ""


def test_what_does_not_fit_the_memory_waits_its_turn(backend: Watched, scheduler: Scheduler) -> None:
    """Two fit; the third waits and is cancelled there, and the fourth, which would fit, does not overtake it."""
    gate = threading.Semaphore(0)
    asked = [request("abc", QUICK.replace(top_k=number), number) for number in (8, 9, 10, 11)]
    backend.need, backend.budget = (lambda config: 3 if config.top_k == 11 else 10), 25
    run = backend.perform

    def held(passes: Sequence[PassWanted]) -> None:
        gate.acquire()
        run(passes)

    backend.perform = held  # type: ignore[method-assign]
    ears = [Ear() for _ in asked]
    with scheduler._changed:
        for one, ear in zip(asked, ears, strict=True):
            scheduler.run(one, ear)
    gate.release(2)
    assert within(lambda: (scheduler.running, scheduler.waiting) == (2, 2))
    asked[2].cancel.set()
    gate.release(1000)
    assert all(ear.has_ended.wait(30.0) for ear in ears)
    assert ears[2].heard == [RunEnded(asked[2].run_id)]
    assert max(backend.together) <= 3
    assert [ear.end.message for ear in ears] == [""] * 4


class OfBytes:
    """A cache on a card."""

    def __init__(self, device_bytes: int) -> None:
        self.device_bytes = device_bytes

    def shared(self, _ids: object) -> int:
        return 0


def test_idle_caches_are_let_go_before_a_run_has_to_wait() -> None:
    pool: Any = CachePool()
    old, new = OfBytes(10), OfBytes(20)
    pool.give_back(old)
    pool.give_back(new)
    admission, asked = Admission(pool), list[int]()

    def free() -> int:
        return 100 - sum(cache.device_bytes for cache in pool._idle) - own.device_bytes

    def need() -> int:
        asked.append(1)
        return 50

    own: Any = OfBytes(0)
    assert admission.fits("a", need, free)
    assert pool._idle == [old, new]
    admission.reserve("a", 50)
    admission.hold("a", own, free)  # nothing of it is taken yet
    assert not admission.fits("b", lambda: 60, free)
    assert pool._idle == []
    own.device_bytes = 50
    assert admission.fits("c", need, free)
    assert admission.fits("c", need, free)
    assert len(asked) == 2  # once a run
    assert admission.running == 1
    admission.end("a")
    own.device_bytes = 0
    assert admission.fits("b", lambda: 60, free)
    pool.give_back(old)
    pool.give_back(new)
    admission.reserve("d", 75)
    admission.hold("d", OfBytes(0), free)  # type: ignore[arg-type]
    assert pool._idle == [new]  # the one that was unused for longest has gone
