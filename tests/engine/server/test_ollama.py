"""Ollama's own client against ``/api``: lists, chats whole and streamed, thoughts, tools, formats, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ollama
import pytest

from tests.engine.server.served import KEY, ScriptedEngine, Served, serving

HI: Any = [{"role": "user", "content": "Hi"}]
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
SAYS = '<|channel>thought\nHm.<channel|>I look.<|tool_call>call:weather{city:<|"|>Bonn<|"|>}<tool_call|>'


def client_of(served: Served, key: str = KEY) -> ollama.Client:
    return ollama.Client(host=served.server.url, headers={"Authorization": f"Bearer {key}"})


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(ScriptedEngine()) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[ollama.Client]:
    with client_of(served) as found:
        yield found


def test_it_is_found_as_ollama_is(client: ollama.Client) -> None:
    [model] = client.list().models
    assert model.model == "scripted"
    assert [one.model for one in client.ps().models] == ["scripted"]
    shown = client.show("scripted:latest")
    assert shown.capabilities == ["completion", "tools"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["safelight.context_length"] == 2_000
    loaded = client.generate("scripted")
    assert (loaded.done, loaded.done_reason) == (True, "load")


def test_a_thought_a_text_and_a_call_come_whole_and_streamed(served: Served, client: ollama.Client) -> None:
    served.engine.says = SAYS
    asked: Any = {"model": "scripted", "messages": HI, "tools": [TOOL], "think": True, "options": {"num_ctx": 9}}
    whole = client.chat(**asked)
    parts = list(client.chat(**asked, stream=True))
    assert whole.message.thinking == "".join(part.message.thinking or "" for part in parts) == "Hm."
    assert whole.message.content == "".join(part.message.content or "" for part in parts) == "I look."
    calls = [call for part in parts for call in part.message.tool_calls or ()]
    for found in (whole.message.tool_calls or (), calls):
        [call] = found
        assert (call.function.name, call.function.arguments) == ("weather", {"city": "Bonn"})
    assert whole.eval_count == parts[-1].eval_count
    assert (whole.done_reason, parts[-1].done_reason) == ("stop", "stop")
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert served.server.live.snapshot()[0].ignored == ("options.num_ctx",)
    answered = [*HI, whole.message, {"role": "tool", "tool_name": "weather", "content": "rain"}]
    client.chat(model="scripted", messages=answered, tools=[TOOL])
    *_, said, tool = served.engine.prompts[-1]
    assert said["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Bonn"}}
    assert (tool["name"], tool["tool_call_id"]) == ("weather", said["tool_calls"][0]["id"])


def test_settings_reach_the_run(served: Served, client: ollama.Client) -> None:
    served.engine.says = "One two three four five six seven eight nine ten."
    cut = client.generate("scripted", "Hi", options={"num_predict": 5, "seed": 3}, system="Be brief.")
    assert (cut.response, cut.done_reason, cut.eval_count) == ("One t", "length", 5)
    assert served.engine.seeds[-1] == 3
    assert served.engine.prompts[-1][0] == {"role": "system", "content": "Be brief."}
    stopped = client.generate("scripted", "Hi", options={"num_predict": -1, "stop": [" three"]}, raw=True)
    assert (stopped.response, stopped.done_reason) == ("One two", "stop")
    known = client.chat("scripted", HI, logprobs=True, top_logprobs=2)
    assert known.logprobs is not None
    assert "".join(one.token for one in known.logprobs) == known.message.content


def call_of(name: str, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": {}}, **more}


@pytest.mark.parametrize(
    ("calls", "results", "names"),
    [
        ("fg", [{}, {}], "fg"),
        ("fg", [{"tool_name": "g"}, {"tool_name": "f"}], "gf"),
        ("fg", [{"tool_name": "odd"}, {}], "fg"),
        ("ffg", [{"tool_call_id": "2"}, {"tool_call_id": "1"}, {}], "gff"),
    ],
)
def test_results_are_those_of_their_calls(served: Served, calls: str, results: list[Any], names: str) -> None:
    sent = [call_of(name, id=str(place)) for place, name in enumerate(calls)]
    answers = [{"role": "tool", "content": "x", **result} for result in results]
    messages = [*HI, {"role": "assistant", "content": "", "tool_calls": sent}, *answers]
    answer = served.http.post("/api/chat", json={"messages": messages, "stream": False})
    assert answer.status_code == 200, answer.text
    called, *found = served.engine.prompts[-1][1:]
    known = {call["id"]: call["function"]["name"] for call in called["tool_calls"]}
    assert [one["name"] for one in found] == list(names)
    assert [known[one["tool_call_id"]] for one in found] == list(names)
    assert len({one["tool_call_id"] for one in found}) == len(found)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "", "application/json"])
def test_a_body_may_say_any_type(served: Served, kind: str) -> None:
    """Takes what curl sends; a page of another origin is still turned away, whatever type it says."""
    body = '{"model": "scripted", "prompt": "Hi", "stream": false}'
    headers = {"content-type": kind} if kind else {}
    assert served.http.post("/api/generate", content=body, headers=headers).status_code == 200
    for origin in ("https://example.org", "null"):
        answer = served.http.post("/api/generate", content=body, headers=headers | {"origin": origin})
        assert answer.status_code == 403
    assert served.http.post("/api/generate", content=body, headers=headers | {"host": "x.example"}).status_code == 403
    bare = {"authorization": "", **headers}
    assert served.http.post("/api/generate", content=body, headers=bare).status_code == 401
    assert served.http.post("/v1/completions", content=body, headers={"content-type": "text/plain"}).status_code == 415


def test_refusals_are_sentences(served: Served, client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match=r"^The model 'other' is not loaded; available: scripted\."):
        client.chat("other", HI)
    with pytest.raises(ollama.ResponseError, match="cannot see images"):
        client.chat("scripted", [{"role": "user", "content": "", "images": ["iVBORw0KGgo="]}])
    with pytest.raises(ollama.ResponseError, match=r"messages\.0\.role"):
        client.chat("scripted", [{"role": "wizard", "content": "x"}])
    with client_of(served, "wrong") as stranger, pytest.raises(ollama.ResponseError) as refused:
        stranger.list()
    assert refused.value.status_code == 401
    served.engine.fail_at = 0
    with pytest.raises(ollama.ResponseError):
        list(client.chat("scripted", HI, stream=True))
    served.engine.fail_at = None
