"""Several runs of the embedded model at once are, event by event and bit by bit, what each is alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from engine import MINI, GenerationConfig, StepFinished
from engine.decoding.protocols import Denoise
from engine.service import (
    ChatRun,
    LoadRequest,
    LocalBackend,
    PassWanted,
    RunAdvanced,
    RunEnded,
    RunRequest,
    RunStarted,
    Scheduler,
)
from engine.service.admission import Admission, CachePool
from engine.text import grammar
from engine.text.grammar_tokens import GrammarTokens
from engine.text.matching import Matcher, MatcherProcess, MatchingEndedError
from engine.text.output_format import OutputFormat
from tests.engine.service.test_local import plain
from tests.engine.service.test_scheduler import Ear, within

QUICK = GenerationConfig(max_new_tokens=128, max_denoising_steps=3, confidence_threshold=0.0, eos_token_ids=())
SPOILED = 40  # the canvas length of a run that is spoiled
ASKED: dict[str, tuple[str, GenerationConfig, int]] = {
    "two blocks": ("Sort 17 3 42 9.", QUICK, 1),
    "short canvas, pinned": ("abc", QUICK.replace(canvas_length=32, pinned=((3, 40),), max_new_tokens=90), 2),
    "warm, with bans": ("How many letters has tree?", QUICK.replace(t_max=2.0, t_min=1.0, banned_tokens=(5, 6)), 3),
    "long prompt": ("Write this backwards: " + "lighthouse " * 12, QUICK.replace(max_denoising_steps=2), 4),
}


class Watched(LocalBackend):
    """Notes how many passes are performed at once; spoils what those of a canvas length find."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[int] = []

    def perform(self, passes: Sequence[PassWanted]) -> None:
        self.together.append(len(passes))
        super().perform(passes)
        for one in passes:
            if isinstance(one.what, Denoise) and len(one.what.canvas) == SPOILED:
                assert one.what.logits is not None
                one.what.logits[3] = torch.nan

    def spare_bytes(self, _model: Any) -> int:
        return 10**12


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


def heard(ear: Ear) -> list[list[Any]]:
    return [plain(reply.event) for reply in ear.heard if isinstance(reply, RunAdvanced)]


def at_once(backend: Watched, scheduler: Scheduler, ears: Sequence[tuple[RunRequest, Ear]]) -> None:
    """Ask for runs before the first begins, and wait for all."""
    backend._caches.clear()  # what is read in other pieces may round differently
    backend.together.clear()
    with scheduler._changed:
        for one, ear in ears:
            scheduler.run(one, ear)
    assert all(ear.has_ended.wait(30.0) for _, ear in ears)


def made_requests() -> list[tuple[RunRequest, Ear]]:
    found: list[tuple[RunRequest, Ear]] = []
    for name, fields in ASKED.items():
        one = request(*fields)
        found.append((one, Stopping(one) if name == "two blocks" else Ear()))
    return found


def test_four_runs_at_once_are_what_each_is_alone(backend: Watched, scheduler: Scheduler) -> None:
    alone, together = made_requests(), made_requests()
    for one in alone:
        at_once(backend, scheduler, [one])
        assert set(backend.together) == {1}
    at_once(backend, scheduler, together)
    assert max(backend.together) == 4
    assert [heard(ear) for _, ear in together] == [heard(ear) for _, ear in alone]
    assert [ear.end.message for _, ear in together] == [""] * 4
    assert [heard(ear)[-1][1] for _, ear in together] == ["cancelled", "length", "length", "length"]


def test_a_run_that_fails_leaves_the_others_as_they_are(backend: Watched, scheduler: Scheduler) -> None:
    spoiled = ("Count to 9.", QUICK.replace(canvas_length=SPOILED), 5)
    runs = [ASKED["short canvas, pinned"], spoiled, ASKED["long prompt"]]
    alone, together = ([(request(*one), Ear()) for one in runs] for _ in range(2))
    for place in (0, 2):
        at_once(backend, scheduler, [alone[place]])
    at_once(backend, scheduler, together)
    assert "non-finite" in together[1][1].end.message
    for place in (0, 2):
        assert heard(together[place][1]) == heard(alone[place][1])
        assert together[place][1].end.message == ""


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
    admission, looks = Admission(pool), list[int]()

    def free() -> int:
        return 100 - sum(cache.device_bytes for cache in pool._idle) - own.device_bytes

    def need() -> int:
        looks.append(1)
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
    assert len(looks) == 2  # once a run
    assert admission.running == 1
    admission.end("a")
    own.device_bytes = 0
    assert admission.fits("b", lambda: 60, free)
    pool.give_back(old)
    pool.give_back(new)
    admission.reserve("d", 75)
    admission.hold("d", OfBytes(0), free)  # type: ignore[arg-type]
    assert pool._idle == [new]  # the one that was unused for longest has gone


# --- answers that are held to a format -------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 99}}, "required": ["size"]}
FORMAT = OutputFormat("json_schema", SCHEMA)
SHORT = GenerationConfig(max_new_tokens=64, max_denoising_steps=4, eos_token_ids=(1, 8))


def asked(wanted: OutputFormat, seed: int = 3) -> RunRequest:
    return ChatRun(SHORT, seed, ({"role": "user", "content": "What is 12 + 7?"},), output_format=wanted)


def held_up(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Holds up what looks at formats until the event is set, or nobody wants it any more."""
    gate, usual = threading.Event(), grammar.matchers_of

    def slowly(format: OutputFormat, tokens: GrammarTokens, process: MatcherProcess) -> list[Matcher]:
        while not gate.wait(0.01):
            if process._cancel is not None and process._cancel.is_set():
                process.close()
                raise MatchingEndedError("it was ended")
        return usual(format, tokens, process)

    monkeypatch.setattr(grammar, "matchers_of", slowly)
    return gate


def test_other_runs_go_on_while_a_format_is_looked_at(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, slow = held_up(monkeypatch), Ear()
    scheduler.run(asked(FORMAT), slow)
    assert within(lambda: scheduler.running == 1)
    other = Ear()
    scheduler.run(request("Sort 17 3 42 9.", SHORT, 1), other)
    assert other.end.message == ""
    assert not slow.heard
    gate.set()
    assert slow.end.message == ""
    assert any(isinstance(reply, RunStarted) for reply in slow.heard)


@pytest.mark.parametrize("closes", [False, True])
def test_a_run_whose_format_is_looked_at_can_be_cancelled(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, closes: bool
) -> None:
    gate, ear, wanted = held_up(monkeypatch), Ear(), asked(FORMAT)
    scheduler.run(wanted, ear)
    assert within(lambda: scheduler.running == 1)
    if closes:
        scheduler.stop_all()
    else:
        wanted.cancel.set()
    assert ear.end == RunEnded(wanted.run_id)
    assert ear.heard == [ear.end]
    gate.set()
    again = Ear()
    scheduler.run(asked(FORMAT), again)
    assert again.end.message == ""


def test_runs_of_formats_among_others_are_what_each_is_alone(backend: Watched, scheduler: Scheduler) -> None:
    def made() -> list[tuple[RunRequest, Ear]]:
        formats = (FORMAT, OutputFormat("regex", pattern="[a-f]{9}x"), OutputFormat("choices", choices=("no", "nine")))
        runs = [asked(wanted, seed) for seed, wanted in enumerate(formats)]
        return [(one, Ear()) for one in (*runs, request("Sort 17 3 42 9.", SHORT, 1))]

    alone, together = made(), made()
    for one in alone:
        at_once(backend, scheduler, [one])
    at_once(backend, scheduler, together)
    assert max(backend.together) == 4
    assert [ear.end.message for _, ear in together] == [""] * 4
    assert [heard(ear) for _, ear in together] == [heard(ear) for _, ear in alone]
