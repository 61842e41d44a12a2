"""Pictures on another Safelight's model: what it makes of them is what this one would have, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from engine.config import GenerationConfig
from engine.events import PrefillFinished
from engine.pictures import Picture
from engine.server import dialect
from engine.service import ChatRun, LoadRequest, LocalBackend, RunRequest
from engine.service.backend import required
from engine.service.description import count_tokens
from engine.service.remote import RemoteAddress, RemoteBackend
from engine.service.remote.calls import Calls, models_of
from tests.engine.seeing import message, picture, seeing
from tests.engine.server.served import KEY, Served, serving
from tests.engine.service.remote.servers import Ran, ask
from tests.engine.service.remote.test_safelight import again, assert_same
from tests.engine.traces import read_whole

QUICK = GenerationConfig(max_new_tokens=32, max_denoising_steps=2, eos_token_ids=(8,), image_tokens=70)
TALL, WIDE = picture(9, 40, 1), picture(120, 12, 2)


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


def chat(*messages: dict[str, Any], pictures: tuple[Picture, ...] = (TALL, WIDE)) -> RunRequest:
    return ChatRun(QUICK, 5, messages, reserve=16, pictures=pictures)


def uploads(served: Served) -> int:
    opening: Mock = served.server._context.pictures.open  # type: ignore[assignment]
    return opening.call_count


def both(local: LocalBackend, remote: RemoteBackend, request: RunRequest) -> tuple[Ran, Ran]:
    here, there = ask(local, again(request)), ask(remote, request)
    assert there.ended.message == here.ended.message == ""
    assert_same(there.events, here.events)
    return here, there


def test_it_says_that_it_sees_and_what_an_image_takes(local: LocalBackend, remote: RemoteBackend) -> None:
    model = required(remote._model).loaded
    assert remote.capabilities.images
    asked = [message("what?", TALL, WIDE)]
    alone = [{"role": "user", "content": "what?"}]
    assert model.count_tokens(asked) == count_tokens(required(local._model), asked)
    assert model.image_cost is not None
    costs = [model.image_cost(one.width, one.height, QUICK.image_tokens) for one in (TALL, WIDE)]
    ran, _ = both(local, remote, chat(*asked))  # on both: what their caches hold is the same from test to test
    prefill = next(event for event in ran.events if isinstance(event, PrefillFinished))
    assert prefill.prompt_tokens == model.count_tokens(alone) + sum(costs)


def test_a_run_is_the_same_as_here_and_a_picture_is_sent_once(
    local: LocalBackend, remote: RemoteBackend, served: Served
) -> None:
    asked = message("what is this?", TALL, WIDE, at=5)
    here, there = both(local, remote, chat(asked))
    assert uploads(served) == 2
    assert [list(each["images"]) for each in there.trace.header.messages] == [asked["images"]]
    assert there.trace.header.prompt_ids == here.trace.header.prompt_ids
    assert there.trace.pictures == (TALL, WIDE)
    assert there.trace.path is not None
    stored = read_whole(there.trace.path)
    assert stored.pictures == (TALL, WIDE)
    assert_same(list(stored.events), here.events)
    answer = {"role": "assistant", "content": here.trace.text}
    more = both(local, remote, chat(asked, answer, {"role": "user", "content": "and now?"}))
    reused = [next(event for event in ran.events if isinstance(event, PrefillFinished)).reused_tokens for ran in more]
    assert reused[1] == reused[0] > len(here.trace.header.prompt_ids) - 4
    assert uploads(served) == 2


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
