"""An address without a model, and a conversation that is longer than the context of one."""

from __future__ import annotations

import pytest

from engine.config import GenerationConfig
from engine.service import ChatRun, LoadFailed, LoadRequest, ModelLoaded
from engine.service.remote import RemoteBackend
from tests.engine.service.remote.servers import SHORT, ask, bodies, loaded, models, serving, streamed, words


def load(address: str) -> ModelLoaded | LoadFailed:
    replies: list[object] = []
    RemoteBackend(patience=SHORT).load(LoadRequest(address, "A model"), replies.append)
    last = replies[-1]
    assert isinstance(last, ModelLoaded | LoadFailed)
    return last


def test_an_address_without_a_model_takes_the_only_one() -> None:
    with serving(v1_models=models("qwen")) as server:
        reply = load(server.endpoint)
    assert isinstance(reply, ModelLoaded)
    assert reply.model.path_or_id == f"{server.endpoint}/v1#qwen"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "The server at … lists no model. Load one there."),
        (["a", "b"], "The server at … has several models: a, b. Add one to the address, as in …/v1#a."),
        (list("abcdef"), "The server at … has several models: a, b, c, d, e, …. Add one to the address, as in …/v1#a."),
    ],
)
def test_an_address_without_a_model_lists_those_there_are(names: list[str], message: str) -> None:
    with serving(v1_models=models(*names)) as server:
        reply = load(f"{server.endpoint}/v1")
    assert isinstance(reply, LoadFailed)
    assert str(reply.message).replace(server.endpoint, "…") == message


def test_the_oldest_turns_are_left_out_and_a_prompt_over_the_context_says_by_how_much() -> None:
    told = [{"role": "user", "content": "word " * 3000}, {"role": "assistant", "content": "Yes."}]
    told.append({"role": "user", "content": "short"})
    listed = models("m", owner="vllm", max_model_len=4096)
    with serving(v1_models=listed, v1_chat_completions=streamed(*words(["Hi."]))) as server:
        backend = loaded(server)
        assert ask(backend, ChatRun(GenerationConfig(), 0, tuple(told), reserve=1500)).text == "Hi."
        refused = ask(backend, ChatRun(GenerationConfig(), 0, tuple(told[:1]), reserve=1500))
        [body] = bodies(server)
    assert [message["content"] for message in body["messages"]] == ["short"]
    assert "tokens and the answer up to 1,500" in refused.ended.message
    assert "more than the context of 4,096" in refused.ended.message
