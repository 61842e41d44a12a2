"""Addresses: what they mean, what is refused in a sentence, and the model that one without a name leads to."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import SafelightError
from engine.service import LoadFailed, LoadRequest, ModelLoaded, is_remote
from engine.service.backend import run_alone
from engine.service.remote import RemoteBackend
from engine.service.remote.address import RemoteAddress
from engine.service.routing import BackendRouter
from tests.engine.service.remote.servers import SHORT, Ran, models, question, serving, streamed, words
from tests.fake_engine import FakeEngine


@pytest.mark.parametrize(
    ("text", "base", "root", "model"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000", ""),
        ("http://box:8000/v1/", "http://box:8000/v1", "http://box:8000", ""),
        ("https://a.b.example/v1#o/m:4b", "https://a.b.example/v1", "https://a.b.example", "o/m:4b"),
        ("http://[::1]:80#m#2", "http://[::1]:80/v1", "http://[::1]:80", "m#2"),
        ("  http://h/api/v1#m ", "http://h/api/v1", "http://h/api", "m"),
        ("http://h/openai#m", "http://h/openai", "http://h/openai", "m"),
    ],
)
def test_an_address_says_where(text: str, base: str, root: str, model: str) -> None:
    address = RemoteAddress.parse(text)
    assert (address.base, address.root, address.model) == (base, root, model)
    assert RemoteAddress.parse(str(address)) == address
    assert is_remote(text.strip())


@pytest.mark.parametrize(
    ("sentence", "texts"),
    [
        ("begins with http://", ["", "ftp://h/v1", "/models/m"]),
        ("no valid host", ["http://", "http://h:0", "http://h:99999", "http://h:http", "http://[::1", "http://a b",
                           "http://-h", "http://h\\evil"]),
        ("key in its own field", ["http://user:word@h/v1", "http://user@h"]),
        ("not contain a question mark", ["http://h/v1?key=1"]),
        ("no valid path", ["http://h/../v1", "http://h/v1;x", "http://h/" + "a/" * 20]),
        ("contains invalid characters", ["http://h\n/v1", "http://bücher", "http://" + "h" * 3000]),
        ("not a name of a model", ["http://h#" + "m" * 600, "http://h# m"]),
    ],
)  # fmt: skip
def test_a_wrong_address_is_refused_in_a_sentence(sentence: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(SafelightError, match=sentence) as raised:
            RemoteAddress.parse(text)
        assert "word@" not in str(raised.value)


@pytest.mark.parametrize(
    ("is_near", "hosts"), [(True, "localhost 127.0.0.2 [::1] LocalHost."), (False, "box 10.0.0.1")]
)
def test_this_machine_is_known(is_near: bool, hosts: str) -> None:
    for host in hosts.split():
        assert RemoteAddress.parse(f"http://{host}:1").is_near is is_near


def load(address: str) -> object:
    replies: list[object] = []
    RemoteBackend(patience=SHORT).load(LoadRequest(address, "A model"), replies.append)
    return replies[-1]


def test_an_address_without_a_model_takes_the_only_one() -> None:
    with serving(v1_models=models("qwen")) as server:
        reply = load(server.endpoint)
    assert isinstance(reply, ModelLoaded)
    assert reply.model.path_or_id == f"{server.endpoint}/v1#qwen"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "The server at … lists no model. Load one there."),
        (list("ab"), "The server at … has several models: a, b. Add one to the address, as in …/v1#a."),
        (list("abcdef"), "The server at … has several models: a, b, c, d, e, …. Add one to the address, as in …/v1#a."),
    ],
)
def test_an_address_without_a_model_lists_those_there_are(names: list[str], message: str) -> None:
    with serving(v1_models=models(*names)) as server:
        reply = load(f"{server.endpoint}/v1")
    assert isinstance(reply, LoadFailed)
    assert str(reply.message).replace(server.endpoint, "…") == message


def load_by(backend: BackendRouter, path: str) -> Any:
    """The last reply of a load."""
    replies: list[Any] = []
    backend.load(LoadRequest(path, "title"), replies.append)
    return replies[-1]


def test_the_path_says_where_a_model_runs_and_the_other_is_freed() -> None:
    local, remote = FakeEngine(), RemoteBackend(patience=SHORT)
    backend = BackendRouter(local, lambda: remote)
    with serving(v1_models=models("m"), v1_chat_completions=streamed(*words(["from afar"]))) as server:
        assert isinstance(load_by(backend, "safelight-mini"), ModelLoaded)
        assert backend.active.capabilities == local.capabilities
        assert isinstance(load_by(backend, f"{server.endpoint}#m"), ModelLoaded)
        assert not backend.active.capabilities.steps
        assert "no model is loaded" in Ran(list(run_alone(local, question()))).ended.message
        assert Ran(list(run_alone(backend.active, question()))).text == "from afar"
        assert isinstance(load_by(backend, "safelight-mini"), ModelLoaded)
        assert backend.active.capabilities.steps
        assert "no model is loaded" in Ran(list(run_alone(remote, question()))).ended.message
    backend.unload()
    assert "no model is loaded" in Ran(list(run_alone(backend.active, question()))).ended.message


def test_a_load_that_fails_elsewhere_leaves_the_present_model() -> None:
    backend = BackendRouter(FakeEngine(), lambda: RemoteBackend(patience=SHORT))
    failed = load_by(backend, "http://127.0.0.1:9#m")
    assert isinstance(failed, LoadFailed)
    assert not failed.kept
    load_by(backend, "safelight-mini")
    failed = load_by(backend, "http://127.0.0.1:9#m")
    assert isinstance(failed, LoadFailed)
    assert failed.kept
    assert backend.active.capabilities.steps
    assert Ran(list(run_alone(backend.active, question()))).ended.message == ""
    failed = load_by(backend, "crash")  # here, where the present one is freed first
    assert isinstance(failed, LoadFailed)
    assert not failed.kept
