"""vLLM's dialect, replayed from the shapes of its sources (0.33): recorded shapes, not a run of vLLM."""

from __future__ import annotations

import json
from typing import Any

from engine.config import GenerationConfig
from engine.events import TextArrived
from engine.service import LoadFailed, LoadRequest, RunRequest
from engine.service.remote import RemoteBackend
from engine.trace import open_trace
from tests.engine.hub.rude_server import Request
from tests.engine.service.remote.servers import (
    SSE,
    ask,
    bodies,
    chunk,
    events,
    in_json,
    loaded,
    models,
    question,
    serving,
)

NAME = "google/diffusiongemma-26B-A4B-it"


def usage(prompt: int, written: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "total_tokens": prompt + written, "completion_tokens": written}}


def tokenize(request: Request) -> None:
    """A token a word, and four for the turns."""
    told = json.loads(request.body)
    count = sum(len(message["content"].split()) for message in told["messages"]) + 4
    in_json({"count": count, "max_model_len": 4096, "tokens": list(range(count)), "token_strs": None})(request)


def chat(request: Request) -> None:
    """Refuses what the diffusion model refuses; else thinks if it may, and one burst of text a canvas."""
    asked = json.loads(request.body)
    for name in ("seed", "temperature", "min_p", "response_format", "logit_bias"):
        if name in asked:
            message = f"Diffusion models do not support `{name}`."
            error = {"message": message, "type": "BadRequestError", "param": name, "code": 400}
            in_json({"error": error}, "400 Bad Request")(request)
            return
    parts = [chunk({"role": "assistant", "content": ""}, **usage(9, 0))]
    if asked["chat_template_kwargs"]["enable_thinking"]:
        parts.append(chunk({"reasoning": "Let me see. " * 20}, **usage(9, 90)))
    if "tools" in asked:
        called = {"index": 0, "id": "call-1", "type": "function", "function": {"name": "look", "arguments": ""}}
        parts.append(chunk({"tool_calls": [called]}, **usage(9, 100)))
        parts.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"at":'}}]}, **usage(9, 110)))
        parts.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "it"}'}}]}, **usage(9, 120)))
        parts.append(chunk({}, "tool_calls", **usage(9, 120)))
    else:
        parts.append(chunk({"content": "First canvas. "}, **usage(9, 256)))
        parts.append(chunk({"content": "Second canvas."}, **usage(9, 300)))
        parts.append(chunk({}, "stop" if asked["max_tokens"] > 300 else "length", **usage(9, 300)))
    parts.append(chunk(**usage(9, 300)))
    request.reply(events(*parts), *SSE)


def vllm() -> Any:
    return serving(
        v1_models=models(NAME, owner="vllm", root=NAME, parent=None, max_model_len=4096, permission=[]),
        v1_chat_completions=chat,
        tokenize=tokenize,
        version=in_json({"version": "0.33.0"}),
    )


def test_a_chat_comes_in_a_burst_a_canvas(tmp_path: Any) -> None:
    with vllm() as server:
        backend = loaded(server, NAME, traces=tmp_path)
        ran = ask(backend, question(config=GenerationConfig(max_new_tokens=1024)))
    assert ran.ended.message == ""
    assert ran.text == "First canvas. Second canvas."
    assert (ran.thinking, ran.finished.reason) == ("", "eos")
    assert ran.prefill is not None
    assert ran.prefill.prompt_tokens == 9
    assert sum(event.counted for event in ran.events if isinstance(event, TextArrived)) == 300
    assert bodies(server) == [
        {
            "model": NAME,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 1024,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "chat_template_kwargs": {"enable_thinking": False},
        }
    ]
    stored = open_trace(next(tmp_path.iterdir()), check=True)
    assert (stored.text, stored.notice, stored.failure) == (ran.text, "", "")
    assert stored.header.model.path == f"{server.endpoint}/v1#{NAME}"
    assert [type(event) for event in stored.events] == [type(event) for event in ran.events]


def test_it_thinks_where_it_is_allowed_to_and_is_cut_where_its_length_is() -> None:
    with vllm() as server:
        backend = loaded(server, NAME)
        ran = ask(backend, question(think=True, config=GenerationConfig(max_new_tokens=256)))
    assert ran.thinking == "Let me see. " * 20
    assert ran.trace.reply().thinking == ran.thinking.strip()
    assert (ran.text, ran.finished.reason) == ("First canvas. Second canvas.", "length")


def test_the_settings_that_it_honours_are_sent_and_no_others() -> None:
    config = GenerationConfig(max_denoising_steps=16, canvas_length=64, t_max=0.9, entropy_bound=0.5)
    with vllm() as server:
        ran = ask(loaded(server, NAME), question(config=config, seed=123))
    assert ran.ended.message == ""
    [body] = bodies(server)
    assert body["vllm_xargs"] == {"diffusion_max_steps": 16, "diffusion_canvas_length": 64}
    assert not {"seed", "temperature", "top_k", "entropy_bound"} & body.keys()


def test_calls_of_tools_are_shown_and_sent_back_as_the_wire_has_them() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    called = [{"id": "call-1", "type": "function", "function": {"name": "look", "arguments": {"at": "it"}}}]
    messages = (
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": "", "tool_calls": called},
        {"role": "tool", "name": "look", "tool_call_id": "call-1", "content": "seen"},
    )
    with vllm() as server:
        backend = loaded(server, NAME)
        ran = ask(backend, RunRequest("chat", messages, GenerationConfig(), 0, tools=(tool,)))
    assert 'look({"at": "it"})' in ran.text
    [body] = bodies(server)
    assert body["tools"] == [tool]
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"at": "it"}'
    assert ran.trace.header.messages[2] == {"role": "tool", "content": "seen"}


def test_it_counts_the_tokens_and_the_oldest_turns_are_left_out() -> None:
    with vllm() as server:
        backend = loaded(server, NAME)
        assert backend.count_tokens([{"role": "user", "content": "one two three"}]) == 7
        told = [{"role": "user", "content": "word " * 3000}, {"role": "assistant", "content": "Yes."}]
        told.append({"role": "user", "content": "short"})
        request = RunRequest("chat", tuple(told), GenerationConfig(), 0, reserve=1500)
        assert ask(backend, request).ended.message == ""
        [body] = bodies(server)
        assert [message["content"] for message in body["messages"]] == ["short"]
        refused = ask(backend, RunRequest("chat", tuple(told[:1]), GenerationConfig(), 0, reserve=1500))
    assert "Shorten the prompt" in refused.ended.message


def test_what_it_refuses_is_said_in_its_words() -> None:
    def other(request: Request) -> None:
        request.body = json.dumps({**json.loads(request.body), "seed": 1}).encode()
        chat(request)

    with serving(v1_models=models(NAME, owner="vllm"), v1_chat_completions=other) as server:
        ran = ask(loaded(server, NAME))
    said = "Diffusion models do not support `seed`."
    assert ran.ended.message == f"The server at {server.endpoint} refuses the request: {said}"
    assert ran.events == []


def test_a_model_that_it_does_not_have_is_not_loaded() -> None:
    replies: list[Any] = []
    with vllm() as server:
        RemoteBackend().load(LoadRequest(f"{server.endpoint}#other", "Other"), replies.append)
    assert isinstance(replies[-1], LoadFailed)
    assert replies[-1].message == f"The server at {server.endpoint} has no model other; it has {NAME}."
