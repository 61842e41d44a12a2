"""Another Safelight as the remote one: what it computes is what this one would have, bit for bit, of pictures too."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest

from engine.config import GenerationConfig
from engine.events import Event
from engine.pictures import Picture
from engine.server import dialect
from engine.service import (
    ChatRun,
    LoadFailed,
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
from engine.service.wire import CONTENT_TYPE, ReplyWriter, model_to_json
from engine.tasks.decisions.questions import OneOf, Option, YesNo
from tests.engine.hub.rude_server import Request
from tests.engine.seeing import message, picture, seeing
from tests.engine.server.served import KEY, Served, serving
from tests.engine.service.remote import servers
from tests.engine.service.remote.servers import Ran, Route, ask
from tests.engine.traces import read_whole

QUICK = GenerationConfig(max_new_tokens=32, max_denoising_steps=2, eos_token_ids=(8,), image_tokens=70)
TALL, WIDE = picture(9, 40, 1), picture(120, 12, 2)
ALONE = {"role": "user", "content": "what?"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seeing(tmp_path_factory.mktemp("seeing") / "seer", canvas_length=16)


@pytest.fixture(scope="module")
def local(folder: Path) -> LocalBackend:
    backend = LocalBackend()
    backend.load(LoadRequest(str(folder), "Seer"), lambda _: None)
    return backend


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """A server with the same model, in this process; the pictures that it opens are counted."""
    with serving(LocalBackend(), str(folder)) as made:
        pictures = made.server._context.pictures
        with patch.object(pictures, "open", Mock(side_effect=pictures.open)):
            yield made


@pytest.fixture(scope="module")
def remote(served: Served, tmp_path_factory: pytest.TempPathFactory) -> RemoteBackend:
    backend = RemoteBackend(tmp_path_factory.mktemp("traces"), lambda _origin: KEY)
    [model] = models_of(Calls(RemoteAddress.parse(served.server.url), KEY))
    backend.load(LoadRequest(str(model.address), "Seer, elsewhere"), lambda _: None)
    return backend


def chat(*messages: dict[str, Any], pictures: tuple[Picture, ...] = (), **changes: Any) -> RunRequest:
    return ChatRun(QUICK.replace(**changes), 5, messages, reserve=16, pictures=pictures)


def uploads(served: Served) -> int:
    opening: Mock = served.server._context.pictures.open  # type: ignore[assignment]
    return opening.call_count


def both(local: LocalBackend, remote: RemoteBackend, request: RunRequest) -> tuple[Ran, Ran]:
    """A run here, and the run there, which must be the same."""
    here, there = ask(local, dataclasses.replace(request, run_id="a" * 32)), ask(remote, request)
    assert there.ended.message == here.ended.message == ""
    assert_same(there.events, here.events)
    return here, there


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


def test_it_is_found_and_described(served: Served, local: LocalBackend, remote: RemoteBackend) -> None:
    address = RemoteAddress.parse(served.server.url)
    assert probe(address, KEY).words == "Reachable, with one model"
    refused = probe(address, "wrong")
    assert (refused.is_reachable, refused.wants_key) == (False, True)
    able = remote.capabilities
    assert (able.steps, able.forks, able.infill, able.influence, able.adapters) == (True, False, False, False, False)
    assert able.images
    assert able.parallel_runs == local.capabilities.parallel_runs
    there, here = required(remote._model).loaded.count_tokens, partial(count_tokens, required(local._model))
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    for messages, tools in (([ALONE], []), ([ALONE], [tool]), ([message("what?", TALL, WIDE)], [])):
        assert there(messages, tools) == here(messages, tools)


def test_it_says_what_an_image_takes(local: LocalBackend, remote: RemoteBackend) -> None:
    model = required(remote._model).loaded
    assert model.image_cost is not None
    costs = [model.image_cost(one.width, one.height, QUICK.image_tokens) for one in (TALL, WIDE)]
    asked = chat(message("what?", TALL, WIDE), pictures=(TALL, WIDE))
    ran, _ = both(local, remote, asked)  # on both: what their caches hold is the same from test to test
    assert ran.prefill is not None
    assert ran.prefill.prompt_tokens == model.count_tokens([ALONE]) + sum(costs)


def test_a_run_is_the_same_as_here_and_a_picture_is_sent_once(
    local: LocalBackend, remote: RemoteBackend, served: Served
) -> None:
    asked = message("what is this?", TALL, WIDE, at=5)
    here, there = both(local, remote, chat(asked, pictures=(TALL, WIDE)))
    assert uploads(served) == 2
    assert [list(each["images"]) for each in there.trace.header.messages] == [asked["images"]]
    assert there.trace.header.prompt_ids == here.trace.header.prompt_ids
    assert there.trace.pictures == (TALL, WIDE)
    for token in here.finished.tokens[:8].tolist():
        assert there.trace.piece(token) == here.trace.piece(token)
    assert there.trace.text == here.trace.text != ""
    answer = {"role": "assistant", "content": here.trace.text}
    turns = (asked, answer, {"role": "user", "content": "and now?"})
    mine, its = (ran.prefill for ran in both(local, remote, chat(*turns, pictures=(TALL, WIDE))))
    assert mine is not None
    assert its is not None
    assert its.reused_tokens == mine.reused_tokens > len(here.trace.header.prompt_ids) - 4
    assert uploads(served) == 2


def test_it_is_recorded_here_with_the_address_and_without_the_key(
    local: LocalBackend, remote: RemoteBackend, served: Served
) -> None:
    here, there = both(local, remote, chat(message("what is this?", TALL), pictures=(TALL,)))
    assert there.trace.path is not None
    stored = read_whole(there.trace.path)
    assert (stored.notice, stored.header.prompt, stored.pictures) == ("", "what is this?", (TALL,))
    assert_same(list(stored.events), here.events)
    assert stored.header.model.path.startswith(f"{served.server.url}/v1#")
    assert stored.header.model.fingerprint == here.trace.header.model.fingerprint
    assert KEY.encode() not in there.trace.path.read_bytes()


@pytest.mark.parametrize("is_joint", [False, True])
def test_a_decision_is_the_same_as_here(local: LocalBackend, remote: RemoteBackend, is_joint: bool) -> None:
    model = required(remote._model).loaded
    questions = [YesNo("Is it late?"), OneOf("Where is it?", (Option("here"), Option("there"), Option("away")))]
    for request in decision_requests(model, "It is here.", questions, is_joint=is_joint, repeats=2):
        here, there = both(local, remote, request)
        assert there.trace.header.slots == here.trace.header.slots
        assert there.trace.text == here.trace.text != ""


def test_a_stop_ends_it_there_too(remote: RemoteBackend) -> None:
    request, ran = chat(ALONE, confidence_threshold=0.0, eos_token_ids=()), Ran()
    for reply in run_alone(remote, request):
        ran.replies.append(reply)
        if isinstance(reply, RunAdvanced) and len(ran.events) >= 4:
            request.cancel.set()
    assert (ran.ended.message, ran.finished.reason) == ("", "cancelled")
    assert ask(remote, chat(ALONE)).ended.message == ""


def test_what_it_refuses_is_a_sentence(remote: RemoteBackend) -> None:
    ran = ask(remote, dataclasses.replace(chat(ALONE), adapter="nowhere"))
    assert "That adapter is not on the server" in ran.ended.message


def test_what_was_not_sent_or_is_another_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(path: str, **how: Any) -> tuple[int, str]:
        answer = served.http.post(f"/safelight/v1/{path}", **how)
        return answer.status_code, answer.json()["error"]["message"]

    file = {"Content-Type": "application/octet-stream"}
    assert refusal("pictures", content=TALL.data[:50], headers=file) == (
        400, "the picture is damaged and cannot be read; choose another one.",
    )  # fmt: skip
    assert refusal("pictures", json={})[0] == 415
    with monkeypatch.context() as patch:
        patch.setattr(dialect, "MAX_BYTES", len(TALL.data) - 1)
        assert refusal("pictures", content=TALL.data, headers=file)[0] == 413
    assert refusal("pictures/missing", json={"digests": ["../x"]})[0] == 400
    absent = picture(7, 7, 3)
    assert served.http.post("/safelight/v1/pictures/missing", json={"digests": [absent.digest]}).json() == {
        "missing": [absent.digest]
    }
    asked = {"kind": "chat", "messages": [message("a", absent)], "config": {}, "seed": 1}
    status, said = refusal("run", json=asked)
    assert (status, "not on the server" in said) == (400, True)
    served.http.post("/safelight/v1/pictures", content=absent.data, headers=file)
    asked["messages"][0]["images"][0]["width"] = 8  # type: ignore[index]
    assert refusal("run", json=asked) == (400, "an image of a message and its picture differ in size.")


# --- a server that says that it is a Safelight and is none, or dies ---------------------------------------------------


def stream(body: bytes, kind: str = CONTENT_TYPE) -> Route:
    def answer(request: Request) -> None:
        request.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode() + body)

    return answer


@pytest.fixture(scope="module")
def honest(folder: Path) -> dict[str, Route]:
    """The answers of a server of the model before a run."""
    replies: list[Any] = []
    LocalBackend().load(LoadRequest(str(folder), "Seer"), replies.append)
    tokenizer = (folder / "tokenizer.json").read_bytes()
    return {
        "v1_models": servers.models("m", owner="safelight"),
        "safelight_v1_model": servers.in_json(model_to_json(replies[-1].model)),
        "safelight_v1_tokenizer": lambda request: request.reply(tokenizer, *servers.JSON),
    }


def load(endpoint: str) -> tuple[RemoteBackend, Any]:
    backend, replies = RemoteBackend(patience=servers.SHORT), list[Any]()
    backend.load(LoadRequest(f"{endpoint}#m", "M"), replies.append)
    return backend, replies[-1]


def run(honest: dict[str, Route], answer: Route) -> Ran:
    with servers.serving(**honest, safelight_v1_run=answer) as server:
        backend, last = load(server.endpoint)
        assert isinstance(last, ModelLoaded)
        return ask(backend, chat(ALONE))


@pytest.mark.parametrize("route", ["safelight_v1_model", "safelight_v1_tokenizer"])
@pytest.mark.parametrize(
    "answer",
    [
        servers.in_json({"detail": "none"}, "404 Not Found"),
        servers.in_json([1, 2]),
        servers.in_json({"dialect": 99}),
        servers.in_json({"dialect": 1, "vocab_size": 10**12}),
        lambda request: request.reply(b"<html></html>", "Content-Type: text/html"),
        lambda request: request.reply(b'{"model": {"type": "BPE", "vocab": 5}}', *servers.JSON),
        lambda request: request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"),
    ],
)
def test_a_model_that_is_none_is_not_loaded(honest: dict[str, Route], route: str, answer: Route) -> None:
    with servers.serving(**{**honest, route: answer}) as server:
        _, last = load(server.endpoint)
    assert isinstance(last, LoadFailed)
    assert last.message != ""
    assert (last.details, last.kept) == ("", False)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (servers.in_json({"error": {"message": "Loading model"}}, "503 Unavailable"), "Loading model"),
        (servers.in_json({"error": {"message": "Bad seed."}}, "400 Bad Request"), "Bad seed."),
        (stream(b"<html></html>", "text/html"), "no OpenAI-compatible server"),
        (stream(b""), "was lost"),
        (stream(b"x" * 500), "cannot be read"),
        (stream(b"\0" * 500), "cannot be read"),
    ],
)
def test_a_run_that_is_none_is_a_sentence(honest: dict[str, Route], answer: Route, sentence: str) -> None:
    ran = run(honest, answer)
    assert sentence in ran.ended.message
    assert (ran.ended.details, ran.events) == ("", [])


def test_a_run_that_dies_keeps_its_steps(honest: dict[str, Route], local: LocalBackend) -> None:
    writer = ReplyWriter()
    sent = b"".join(writer.write(reply) for reply in run_alone(local, chat(ALONE)))
    whole = run(honest, stream(sent))
    assert whole.ended.message == ""
    half = run(honest, stream(sent[: 2 * len(sent) // 3]))
    assert "was lost" in half.ended.message
    assert 0 < len(half.events) < len(whole.events)
    assert half.trace.failure == half.ended.message
