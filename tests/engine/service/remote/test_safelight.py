"""Another Safelight as the remote one: what it computes is what this one would have, bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import catalog
from engine.config import GenerationConfig
from engine.events import Event
from engine.files import read_json
from engine.service import (
    ChatRun,
    LoadRequest,
    LocalBackend,
    ModelLoaded,
    RunAdvanced,
    RunRequest,
    decision_requests,
)
from engine.service.backend import required, run_alone
from engine.service.description import count_tokens
from engine.service.remote import RemoteAddress, RemoteBackend, probe
from engine.service.remote.calls import Calls, models_of
from engine.tasks.decisions.questions import OneOf, Option, YesNo
from tests.engine.server.served import KEY, serving
from tests.engine.service.remote.servers import Ran, ask
from tests.engine.traces import read_whole

PROMPT = "Count from 4 to 43."


@pytest.fixture(scope="module")
def local() -> LocalBackend:
    backend = LocalBackend()
    backend.load(LoadRequest(catalog.MINI, "Skills"), lambda _: None)
    return backend


@pytest.fixture(scope="module")
def server() -> Iterator[RemoteAddress]:
    """A server with the same model, in this process."""
    with serving(LocalBackend(), catalog.MINI) as served:
        yield RemoteAddress.parse(served.server.url)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def remote(server: RemoteAddress, traces: Path) -> RemoteBackend:
    backend = RemoteBackend(traces, lambda _origin: KEY)
    [model] = models_of(Calls(server, KEY))
    replies: list[Any] = []
    backend.load(LoadRequest(str(model.address), "Skills, elsewhere"), replies.append)
    assert isinstance(replies[-1], ModelLoaded), replies
    return backend


def asked(**how: Any) -> RunRequest:
    folder = catalog.resolve(catalog.MINI)
    usual = GenerationConfig.from_dict(read_json(folder / "generation_config.json"))
    config = usual.replace(**{"max_new_tokens": 128, "max_denoising_steps": 12} | how)
    return ChatRun(config, 11, ({"role": "user", "content": PROMPT},))


def again(request: RunRequest) -> RunRequest:
    """Returns a request as a run of its own."""
    return dataclasses.replace(request, run_id="a" * 32)


def assert_same(found: list[Event], expected: list[Event]) -> None:
    """Equal in all but the time they took."""
    assert [type(event) for event in found] == [type(event) for event in expected]
    for one, other in zip(found, expected, strict=True):
        for each in dataclasses.fields(one):
            if each.name in ("seconds", "reused_tokens"):
                continue
            mine, its = getattr(one, each.name), getattr(other, each.name)
            if isinstance(its, tuple):  # of a decision's slots
                mine, its = np.concatenate([*map(np.atleast_1d, mine)]), np.concatenate([*map(np.atleast_1d, its)])
            if isinstance(its, np.ndarray):
                assert mine.dtype == its.dtype
                np.testing.assert_array_equal(mine, its)
            else:
                assert mine == its


@pytest.fixture(scope="module")
def pair(local: LocalBackend, remote: RemoteBackend) -> tuple[Ran, Ran]:
    """A run here, and the run there."""
    return ask(local, asked()), ask(remote, asked())


def test_it_is_found_and_described(server: RemoteAddress, local: LocalBackend, remote: RemoteBackend) -> None:
    assert probe(server, KEY).words == "Reachable, with one model"
    refused = probe(server, "wrong")
    assert (refused.is_reachable, refused.wants_key) == (False, True)
    able = remote.capabilities
    assert (able.steps, able.forks, able.infill, able.influence, able.adapters) == (True, False, False, False, False)
    assert able.parallel_runs == local.capabilities.parallel_runs
    messages = [{"role": "user", "content": PROMPT}]
    there, here = required(remote._model).loaded.count_tokens, partial(count_tokens, required(local._model))
    for tools in ([], [{"type": "function", "function": {"name": "look", "parameters": {}}}]):
        assert there(messages, tools) == here(messages, tools)


def test_a_run_is_the_same_as_here(pair: tuple[Ran, Ran]) -> None:
    here, there = pair
    assert there.ended.message == ""
    assert_same(there.events, here.events)
    for token in here.finished.tokens[:8].tolist():
        assert there.trace.piece(token) == here.trace.piece(token)
    assert there.trace.text == here.trace.text != ""


def test_it_is_recorded_here_with_the_address_and_without_the_key(pair: tuple[Ran, Ran], server: RemoteAddress) -> None:
    trace = pair[1].trace
    assert trace.path is not None
    stored = read_whole(trace.path)
    assert stored.notice == ""
    assert_same(list(stored.events), pair[0].events)
    assert stored.header.model.path.startswith(f"{server.origin}/v1#")
    assert stored.header.model.fingerprint == pair[0].trace.header.model.fingerprint
    assert KEY.encode() not in trace.path.read_bytes()
    assert stored.header.prompt == PROMPT


@pytest.mark.parametrize("is_joint", [False, True])
def test_a_decision_is_the_same_as_here(local: LocalBackend, remote: RemoteBackend, is_joint: bool) -> None:
    model = required(remote._model).loaded
    questions = [YesNo("Is it late?"), OneOf("Where is it?", (Option("here"), Option("there"), Option("away")))]
    for request in decision_requests(model, "It is here.", questions, is_joint=is_joint, repeats=2):
        here, there = ask(local, again(request)), ask(remote, request)
        assert (there.ended.message, there.trace.header.slots) == ("", here.trace.header.slots)
        assert_same(there.events, here.events)
        assert there.trace.text == here.trace.text != ""


def test_a_stop_ends_it_there_too(remote: RemoteBackend) -> None:
    request, ran = asked(confidence_threshold=0.0), Ran()
    for reply in run_alone(remote, request):
        ran.replies.append(reply)
        if isinstance(reply, RunAdvanced) and len(ran.events) >= 4:
            request.cancel.set()
    assert (ran.ended.message, ran.finished.reason) == ("", "cancelled")
    assert ask(remote, asked()).ended.message == ""


def test_what_it_refuses_is_a_sentence(remote: RemoteBackend) -> None:
    request = dataclasses.replace(asked(), adapter="nowhere")
    ran = ask(remote, request)
    assert "That adapter is not on the server" in ran.ended.message
