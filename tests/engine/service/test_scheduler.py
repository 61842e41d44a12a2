"""Several runs of one backend at once: order, fairness, cancel, failures. The backend is made of words."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from engine import GenerationConfig
from engine.service import (
    AdapterChanged,
    AdapterRequest,
    BusyError,
    Capabilities,
    ChatRun,
    CompletionRun,
    LoadRequest,
    LoadStarted,
    ModelUnloaded,
    PassWanted,
    RunAdvanced,
    RunEnded,
    RunRequest,
    RunSteps,
    Scheduler,
    TraceNotKept,
)
from engine.service import scheduler as scheduler_module

MESSAGES = ({"role": "user", "content": "hello"},)
TOGETHER = 3


def within(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait for something that another thread brings about; False where it does not."""
    ends = time.monotonic() + seconds
    while not condition() and time.monotonic() < ends:
        time.sleep(0.001)
    return condition()


class Worded:
    """Each run says how often it was taken further, and wants a pass before each time; ``seed`` is how often."""

    capabilities = Capabilities(parallel_runs=TOGETHER)

    def __init__(self) -> None:
        self.joint: list[tuple[str, ...]] = []  # ids of the runs in each performance
        self.done: list[str] = []  # what was done while no run was active
        self.gate: threading.Semaphore | None = None
        self.broken: set[str] = set()  # ids of runs whose passes fail

    def load(self, request: LoadRequest, report: Callable[[Any], None]) -> None:
        self.done.append("load")
        report(LoadStarted(request.title))

    def unload(self) -> ModelUnloaded:
        self.done.append("unload")
        return ModelUnloaded()

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        self.done.append("adapter")
        return AdapterChanged(request.path_or_id)

    def measure(self, _request: Any) -> Any:
        raise NotImplementedError

    def admits(self, request: RunRequest, running: Sequence[RunRequest]) -> bool:
        return all(other.adapter == request.adapter for other in running)

    def begin(self, request: RunRequest) -> RunSteps:
        for number in range(request.seed):
            if request.cancel.is_set():
                break
            try:
                yield PassWanted(request.run_id)
            except ArithmeticError as error:
                yield RunEnded(request.run_id, str(error))
                return
            yield RunAdvanced(request.run_id, number)  # type: ignore[arg-type]
        yield RunEnded(request.run_id)

    def perform(self, passes: Sequence[PassWanted]) -> None:
        if self.gate is not None:
            self.gate.acquire()
        self.joint.append(tuple(str(wanted.what) for wanted in passes))
        for wanted in passes:
            if wanted.what in self.broken:
                raise ArithmeticError("it does not add up")
            wanted.is_done = True


class Ear:
    """An outlet that keeps what it hears; outlets need not be hashable."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, most: int = 10**9) -> None:
        self.heard: list[Any] = []
        self.most = most
        self.has_ended = threading.Event()

    def put(self, reply: Any) -> None:
        self.heard.append(reply)
        if isinstance(reply, RunEnded):
            self.has_ended.set()

    @property
    def is_full(self) -> bool:
        return len(self.heard) >= self.most

    @property
    def numbers(self) -> list[int]:
        return [reply.event for reply in self.heard if isinstance(reply, RunAdvanced)]

    @property
    def end(self) -> RunEnded:
        assert self.has_ended.wait(10)
        assert isinstance(self.heard[-1], RunEnded)
        return self.heard[-1]


@pytest.fixture
def backend() -> Worded:
    return Worded()


@pytest.fixture
def scheduler(backend: Worded) -> Iterator[Scheduler]:
    made = Scheduler(backend)
    yield made
    go_on(backend)
    assert made.close()


def go_on(backend: Worded) -> None:
    """Let all passes be performed."""
    if backend.gate is not None:
        backend.gate.release(10_000)


def asked(scheduler: Scheduler, steps: int, *, most: int = 10**9, **options: Any) -> tuple[RunRequest, Ear]:
    request, ear = ChatRun(GenerationConfig(), steps, MESSAGES, **options), Ear(most)
    scheduler.run(request, ear)
    return request, ear


def several(count: int, steps: int = 1) -> list[RunRequest]:
    return [ChatRun(GenerationConfig(), steps, MESSAGES) for _ in range(count)]


def held(backend: Worded, scheduler: Scheduler, *steps: int) -> list[tuple[RunRequest, Ear]]:
    """Runs that have begun, the first of them in the midst of a pass."""
    backend.gate = threading.Semaphore(0)
    found = [asked(scheduler, count) for count in steps]
    backend.gate.release()
    assert within(lambda: scheduler.running == min(len(steps), TOGETHER))
    return found


def test_runs_take_their_passes_together_and_each_hears_its_own(backend: Worded, scheduler: Scheduler) -> None:
    runs = held(backend, scheduler, 4, 2, 3)
    go_on(backend)
    assert [ear.end.run_id for _, ear in runs] == [request.run_id for request, _ in runs]
    assert [ear.numbers for _, ear in runs] == [[0, 1, 2, 3], [0, 1], [0, 1, 2]]
    ids = tuple(request.run_id for request, _ in runs)
    assert ids in backend.joint
    assert len(backend.joint) < 9  # one by one there would be nine


def test_a_run_that_is_not_admitted_keeps_its_place(backend: Worded, scheduler: Scheduler) -> None:
    runs = held(backend, scheduler, 2, 9)
    other = asked(scheduler, 1, adapter="other")  # cannot share a pass with them
    same = asked(scheduler, 1)  # could, but came later
    assert scheduler.waiting == 2
    go_on(backend)
    assert same[1].end
    longest = runs[1][0].run_id
    assert backend.joint[-3:] == [(longest,), (other[0].run_id,), (same[0].run_id,)]


def test_those_that_wait_begin_where_others_end_without_being_looked_for(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "POLL_SECONDS", 3_600.0)
    ear, asked = Ear(), several(3 * TOGETHER, steps=2)
    scheduler.run_all(asked, ear)  # so that a few begin, and end, together
    assert within(lambda: sum(isinstance(reply, RunEnded) for reply in ear.heard) == len(asked))


def test_several_runs_of_a_client_wait_as_one(backend: Worded, scheduler: Scheduler) -> None:
    held(backend, scheduler, 5, 5, 5)
    ear, other = Ear(), Ear()
    scheduler.run_all(several(4), ear, most_waiting=1)
    with pytest.raises(BusyError, match="1 requests are already waiting"):
        scheduler.run_all(several(1), other, most_waiting=1)
    go_on(backend)
    assert within(lambda: sum(isinstance(reply, RunEnded) for reply in ear.heard) == 4)
    assert not other.heard


def test_clients_take_turns_and_so_do_their_requests(backend: Worded, scheduler: Scheduler) -> None:
    backend.gate = threading.Semaphore(0)
    batch, second, chat, ears = several(12), several(1), several(2), [Ear() for _ in range(4)]
    scheduler.run_all(batch, ears[0], client="batch")
    assert within(lambda: scheduler.running == TOGETHER)
    scheduler.run_all(second, ears[1], client="batch")
    for request, ear in zip(chat, ears[2:], strict=True):
        scheduler.run_all([request], ear, client="chat")
    go_on(backend)
    assert within(lambda: sum(isinstance(one, RunEnded) for ear in ears for one in ear.heard) == 15)
    order = list(dict.fromkeys(run for ids in backend.joint for run in ids))  # of their first passes
    assert order[:TOGETHER] == [request.run_id for request in batch[:TOGETHER]]
    places = [order.index(request.run_id) for request in (*chat, *second)]
    assert max(places) < 2 * TOGETHER + 2  # and not behind all of the batch
    assert [run for run in order if run in {one.run_id for one in batch}] == [one.run_id for one in batch]


def test_a_failing_pass_is_the_business_of_its_run_alone(backend: Worded, scheduler: Scheduler) -> None:
    runs = held(backend, scheduler, 4, 4, 4)
    backend.broken.add(runs[1][0].run_id)
    go_on(backend)
    assert [ear.end.message for _, ear in runs] == ["", "it does not add up", ""]
    assert [ear.numbers for _, ear in runs][::2] == [[0, 1, 2, 3]] * 2


def test_a_backend_that_breaks_down_ends_the_run_and_not_the_thread(backend: Worded, scheduler: Scheduler) -> None:
    backend.begin = lambda request: request.undefined  # type: ignore[method-assign, attr-defined]
    assert asked(scheduler, 1)[1].end.message.startswith("Something went wrong")
    del backend.begin  # type: ignore[method-assign]
    assert asked(scheduler, 1)[1].end.message == ""


def test_a_client_that_does_not_listen_holds_up_itself_alone(backend: Worded, scheduler: Scheduler) -> None:
    slow, deaf = asked(scheduler, 50, most=3)
    quick = asked(scheduler, 50)[1]
    assert quick.end.message == ""
    assert deaf.numbers == [0, 1, 2]
    deaf.most = 10
    scheduler.wake()
    assert within(lambda: len(deaf.heard) == 10)
    slow.cancel.set()  # it learns that it ends, however full it is
    scheduler.wake()
    assert deaf.end == RunEnded(slow.run_id)
    assert backend.joint


def test_runs_whose_clients_read_nothing_give_up_their_places(backend: Worded, scheduler: Scheduler) -> None:
    stalled = [asked(scheduler, 50, most=2) for _ in range(TOGETHER)]
    assert within(lambda: [len(ear.heard) for _, ear in stalled] == [2] * TOGETHER)
    others = [asked(scheduler, 5)[1] for _ in range(TOGETHER)]
    assert [ear.end.message for ear in others] == [""] * TOGETHER
    assert [len(ear.heard) for _, ear in stalled] == [2] * TOGETHER
    for _, ear in stalled:
        ear.most = 10**9
    scheduler.wake()
    assert [len(ear.numbers) for _, ear in stalled if ear.end] == [50] * TOGETHER
    assert max(map(len, backend.joint)) <= TOGETHER


def test_a_client_that_fails_is_one_that_has_left(scheduler: Scheduler) -> None:
    class Broken(Ear):
        def put(self, reply: Any) -> None:
            super().put(reply)
            raise OSError("the loop has ended")

    request, ear = ChatRun(GenerationConfig(), 10**9, MESSAGES), Broken()
    scheduler.run(request, ear)
    assert ear.end
    assert request.cancel.is_set()
    assert asked(scheduler, 2)[1].end.message == ""


def test_a_run_without_passes_lets_others_in_between(backend: Worded, scheduler: Scheduler) -> None:
    def talk(request: RunRequest) -> RunSteps:
        for _ in range(1000):
            yield TraceNotKept("no room")
        yield RunEnded(request.run_id)

    plain = backend.begin
    backend.begin = lambda request: talk(request) if isinstance(request, CompletionRun) else plain(request)  # type: ignore[method-assign]
    held(backend, scheduler, 3)  # until both are there
    both, brief = Ear(), ChatRun(GenerationConfig(), 2, MESSAGES)
    scheduler.run_all([CompletionRun(GenerationConfig(), 0, text="x"), brief], both)
    go_on(backend)
    assert within(lambda: sum(isinstance(reply, RunEnded) for reply in both.heard) == 2)
    assert next(reply.run_id for reply in both.heard if isinstance(reply, RunEnded)) == brief.run_id


def test_what_concerns_the_model_waits_for_the_runs_before_it(backend: Worded, scheduler: Scheduler) -> None:
    (_, ear), *_ = held(backend, scheduler, 3)
    adapted = Ear()
    scheduler.set_adapter(AdapterRequest("some"), adapted)
    later = asked(scheduler, 1)[1]
    assert backend.done == []
    go_on(backend)
    assert later.end
    assert ear.numbers == [0, 1, 2]
    assert adapted.heard == [AdapterChanged("some")]


def test_a_load_cancels_what_was_asked_for_before_it(backend: Worded, scheduler: Scheduler) -> None:
    (_, ear), *_ = held(backend, scheduler, 100)
    loading = Ear()
    scheduler.load(LoadRequest("there", "There"), loading)
    later = asked(scheduler, 2)[1]
    go_on(backend)
    assert ear.end
    assert len(ear.numbers) <= 2
    assert later.end
    assert later.numbers == [0, 1]
    assert loading.heard == [LoadStarted("There")]
    assert backend.done == ["load"]


def test_nothing_is_kept_of_runs_that_ended(scheduler: Scheduler) -> None:
    request, ear = asked(scheduler, 3)
    assert ear.end
    ends = weakref.ref(request), weakref.ref(ear)
    del request, ear
    assert within(lambda: [end() for end in ends] == [None, None])


def test_closing_ends_all_runs_and_those_that_wait(backend: Worded) -> None:
    scheduler = Scheduler(backend)
    ears = [asked(scheduler, 10**9)[1] for _ in range(TOGETHER + 2)]
    assert within(lambda: scheduler.running == TOGETHER)
    assert scheduler.close()
    assert scheduler.close()
    assert all(ear.end for ear in ears)
    assert scheduler.running == scheduler.waiting == 0
    assert asked(scheduler, 1)[1].end  # too late
