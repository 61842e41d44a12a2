"""Races: each lane is its run alone, lanes take turns by step, and a failure is reported where it belongs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine import GAPS, MINI, GenerationFinished, StepFinished
from engine.service import (
    ChatRun,
    Lane,
    LanePassed,
    LoadedModel,
    LoadRequest,
    LocalBackend,
    ModelLoaded,
    PassWanted,
    RaceEnded,
    RaceLoading,
    RaceRequest,
    Racing,
    RunAdvanced,
    RunEnded,
    Scheduler,
    run_alone,
)
from engine.text.message import message_of
from tests.engine.seeing import picture, seeing
from tests.engine.service.test_local import plain
from tests.engine.service.test_scheduler import Ear, within
from tests.fake_engine import FakeEngine

MESSAGES = ({"role": "user", "content": "Sort 17 3 42 9."},)
STEPS = 5
DIFFUSING: Mapping[str, Any] = {
    "max_new_tokens": 70,
    "max_denoising_steps": STEPS,
    "confidence_threshold": 0.0,
    "eos_token_ids": (),
}
WRITING: Mapping[str, Any] = {"decoder": "autoregressive", "max_new_tokens": 9}


class Performing(LocalBackend):
    """Notes how many passes are performed at once."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[int] = []
        self.budget = 10**12

    def perform(self, passes: Sequence[PassWanted]) -> None:
        self.together.append(len(passes))
        super().perform(passes)

    def spare_bytes(self, _model: Any) -> int:
        return self.budget


def loaded(backend: LocalBackend, name: str = MINI) -> LoadedModel:
    found: list[LoadedModel] = []
    backend.load(LoadRequest(name, name), lambda one: found.append(one.model) if isinstance(one, ModelLoaded) else None)
    return found[0]


def race_of(*lanes: tuple[str, Mapping[str, Any]], seed: int = 3) -> RaceRequest:
    return RaceRequest(MESSAGES, tuple(Lane(model, model, changes) for model, changes in lanes), seed, keep=False)


def events(heard: Sequence[Any], run_id: str) -> list[list[Any]]:
    return [plain(one.event) for one in heard if isinstance(one, RunAdvanced) and one.run_id == run_id]


@pytest.fixture(scope="module")
def backend() -> Performing:
    return Performing()


@pytest.fixture(scope="module")
def present(backend: Performing) -> LoadedModel:
    return loaded(backend)


def test_each_lane_is_its_run_alone_and_lanes_take_turns_by_step(backend: Performing, present: LoadedModel) -> None:
    racing, heard = Racing(backend), list[Any]()
    racing.run(race_of((MINI, DIFFUSING), (MINI, WRITING)), present, lambda _: None)
    race = race_of((MINI, DIFFUSING), (MINI, WRITING))
    backend._caches.clear()  # what is read in other pieces may round differently
    backend.together.clear()
    racing.run(race, present, heard.append)
    assert set(backend.together) == {1}
    assert isinstance(heard[-1], RaceEnded)
    assert heard[-1].message == ""
    for lane in race.lanes:
        backend._caches.clear()
        config = present.defaults.replace(**lane.changes)
        alone = list(run_alone(backend, ChatRun(config, race.seed, MESSAGES)))
        assert events(heard, lane.run_id) == [plain(one.event) for one in alone if isinstance(one, RunAdvanced)]
    turns = [one.run_id for one in heard if isinstance(one, RunAdvanced) and isinstance(one.event, StepFinished)]
    first, second = (lane.run_id for lane in race.lanes)
    assert turns[: 2 * STEPS] == [first, second] * STEPS
    passed = [[one.forwards for one in heard if isinstance(one, LanePassed) and one.run_id == run] for run in turns[:2]]
    assert passed[0][-1] == 2 * STEPS + 1  # two blocks, of which the first is committed in a forward of its own
    assert passed[1][-1] == 9


def test_another_model_is_loaded_in_addition_and_kept_until_no_lane_asks_for_it(
    backend: Performing, present: LoadedModel
) -> None:
    racing = Racing(backend)

    def loads(*lanes: tuple[str, Mapping[str, Any]]) -> int:
        heard: list[Any] = []
        racing.run(race_of(*lanes), present, heard.append)
        assert [one.message for one in heard if isinstance(one, RunEnded | RaceEnded)] == [""] * 3
        return sum(isinstance(one, RaceLoading) and one.share == 1.0 for one in heard)

    both = ((MINI, WRITING), (GAPS, WRITING))
    assert [loads(*both), loads(*both), loads(both[0], both[0]), loads(*both)] == [1, 0, 0, 1]
    racing.forget()
    assert loads(*both) == 1


def test_a_lane_that_fails_fails_alone(backend: Performing, present: LoadedModel) -> None:
    race, heard = race_of((MINI, {"decoder": "causal_parallel"}), (MINI, WRITING)), list[Any]()
    Racing(backend).run(race, present, heard.append)
    said = {one.run_id: one.message for one in heard if isinstance(one, RunEnded)}
    assert "unknown decoder 'causal_parallel'" in said[race.lanes[0].run_id]
    assert said[race.lanes[1].run_id] == ""
    assert heard[-1].message == ""


def test_what_no_race_can_be_run_on_is_said(backend: Performing, present: LoadedModel) -> None:
    def ends(*lanes: tuple[str, Mapping[str, Any]]) -> str:
        heard: list[Any] = []
        Racing(backend).run(race_of(*lanes), present, heard.append)
        assert isinstance(heard[-1], RaceEnded)
        return heard[-1].message

    assert "nowhere cannot be loaded: there is no model at nowhere" in ends((MINI, WRITING), ("nowhere", WRITING))
    assert "runs on another machine" in ends((MINI, WRITING), ("http://127.0.0.1:1/v1", WRITING))
    assert "unknown generation setting: speed" in ends((MINI, WRITING), (MINI, {"speed": 9}))
    backend.budget = 0
    try:
        assert "There is no room for 2 runs" in ends((MINI, WRITING), (MINI, WRITING))
    finally:
        backend.budget = 10**12
    for count in (1, 5):
        with pytest.raises(ValueError, match="2 to 4 lanes"):
            race_of(*[(MINI, WRITING)] * count)


@pytest.mark.parametrize("is_full", [False, True])
def test_cancel_takes_effect_within_a_step_without_a_listener(
    backend: Performing, present: LoadedModel, is_full: bool
) -> None:
    race, heard = race_of((MINI, DIFFUSING), (MINI, WRITING)), list[Any]()
    looks = iter(range(3))  # at whether there is room, before it is cancelled

    def put(reply: Any) -> None:
        heard.append(reply)
        if not is_full and sum(isinstance(one, LanePassed) for one in heard) == 4:
            race.cancel.set()

    def blocked() -> bool:
        if is_full and next(looks, None) is None:
            race.cancel.set()
        return is_full

    Racing(backend).run(race, present, put, blocked)
    events = [one.event for one in heard if isinstance(one, RunAdvanced)]
    assert [event.reason for event in events if isinstance(event, GenerationFinished)] == ["cancelled"] * 2
    assert sum(isinstance(event, StepFinished) for event in events) <= 6


class Ears(Ear):
    def put(self, reply: Any) -> None:
        super().put(reply)
        if isinstance(reply, RaceEnded):
            self.has_ended.set()


def test_a_race_waits_for_runs_and_runs_for_a_race() -> None:
    fake = FakeEngine()
    fake.hold = True
    scheduler = Scheduler(fake)
    scheduler.load(LoadRequest(MINI, "Skills"), Ear())
    assert within(lambda: scheduler.model is not None)
    before, after, race = Ear(), Ear(), Ears()
    config = fake.defaults
    scheduler.run(ChatRun(config, 1, MESSAGES), before)
    assert within(lambda: bool(before.heard))
    scheduler.race(race_of((MINI, {}), (MINI, {})), race)
    scheduler.run(ChatRun(config, 2, MESSAGES), after)
    assert not race.heard
    fake.gate.release(10_000)
    assert race.has_ended.wait(10)
    assert after.has_ended.wait(10)
    assert fake.seeds == [1, 3, 3, 3, 2]  # a step or two first, and each lane
    assert scheduler.close()


def test_lanes_that_see_race_on_a_picture_and_the_others_say_why_not(tmp_path: Path) -> None:
    seer = str(seeing(tmp_path / "seer", canvas_length=16))
    backend, shown, heard = LocalBackend(), picture(9, 40, 1), list[Any]()
    model = loaded(backend, seer)
    quick = {"max_new_tokens": 16, "max_denoising_steps": 2, "image_tokens": 70}
    more = {**quick, "image_tokens": 140}
    lanes = Lane(seer, "Seer", quick), Lane(MINI, "Skills", quick), Lane(seer, "Seer", more)
    request = RaceRequest((message_of("what?", [shown]),), lanes, 3, keep=False, pictures=(shown,))
    racing = Racing(backend)
    racing.run(request, model, lambda _: None)
    backend._caches.clear()
    racing.run(request, model, heard.append)
    ends = {reply.run_id: reply.message for reply in heard if isinstance(reply, RunEnded)}
    blind = "Skills only reads text: it cannot answer about a picture."
    assert [ends[lane.run_id] for lane in lanes] == ["", blind, ""]
    for lane in (lanes[0], lanes[2]):
        backend._caches.clear()
        config = model.defaults.replace(**lane.changes)
        alone = ChatRun(config, 3, request.messages, keep=False, pictures=(shown,))
        found = [plain(reply.event) for reply in run_alone(backend, alone) if isinstance(reply, RunAdvanced)]
        assert events(heard, lane.run_id) == found
