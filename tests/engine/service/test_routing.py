"""A model here or elsewhere: one of two backends has it, whatever is loaded in what order."""

from __future__ import annotations

from typing import Any

from engine.service import LoadFailed, LoadRequest, ModelLoaded
from engine.service.backend import run_alone
from engine.service.remote import RemoteBackend
from engine.service.routing import BackendRouter
from tests.engine.service.remote.servers import SHORT, Ran, models, question, serving, streamed, words
from tests.fake_engine import FakeEngine


def load(backend: BackendRouter, path: str) -> Any:
    """The last reply of a load."""
    replies: list[Any] = []
    backend.load(LoadRequest(path, "title"), replies.append)
    return replies[-1]


def test_the_path_says_where_a_model_runs_and_the_other_is_freed() -> None:
    local, remote = FakeEngine(), RemoteBackend(patience=SHORT)
    backend = BackendRouter(local, lambda: remote)
    with serving(v1_models=models("m"), v1_chat_completions=streamed(*words(["from afar"]))) as server:
        assert isinstance(load(backend, "safelight-mini"), ModelLoaded)
        assert backend.active.capabilities == local.capabilities
        assert isinstance(load(backend, f"{server.endpoint}#m"), ModelLoaded)
        assert not backend.active.capabilities.steps
        assert "no model is loaded" in Ran(list(run_alone(local, question()))).ended.message
        assert Ran(list(run_alone(backend.active, question()))).text == "from afar"
        assert isinstance(load(backend, "safelight-mini"), ModelLoaded)
        assert backend.active.capabilities.steps
        assert "no model is loaded" in Ran(list(run_alone(remote, question()))).ended.message
    backend.unload()
    assert "no model is loaded" in Ran(list(run_alone(backend.active, question()))).ended.message


def test_a_load_that_fails_elsewhere_leaves_the_present_model() -> None:
    backend = BackendRouter(FakeEngine(), lambda: RemoteBackend(patience=SHORT))
    failed = load(backend, "http://127.0.0.1:9#m")
    assert isinstance(failed, LoadFailed)
    assert not failed.kept
    load(backend, "safelight-mini")
    failed = load(backend, "http://127.0.0.1:9#m")
    assert isinstance(failed, LoadFailed)
    assert failed.kept
    assert backend.active.capabilities.steps
    assert Ran(list(run_alone(backend.active, question()))).ended.message == ""
    failed = load(backend, "crash")  # here, where the present one is freed first
    assert isinstance(failed, LoadFailed)
    assert not failed.kept
