"""``/v1/responses`` as OpenAI's own client sees it, with strict validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import openai
import pytest
from openai.types.responses import Response

from engine.server.errors import ApiError
from engine.server.kept import KeptResponses
from engine.server.messages import read_messages
from engine.server.responses_request import ResponsesRequest, chat_of
from engine.server.strict import Ignored
from tests.engine.server.openai_client import client_of
from tests.engine.server.served import NO_IMAGES, ScriptedEngine, Served, serving

TASK = "Count from 3 to 9."


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with client_of(served) as client:
        yield client


@pytest.fixture(scope="module")
def scripted() -> Iterator[Served]:
    with serving(ScriptedEngine()) as served:
        yield served


def test_the_official_client_gets_an_answer_and_the_same_one_streamed(client: openai.OpenAI) -> None:
    more = {"seed": 5}
    whole = client.responses.create(model="safelight-mini", input=TASK, store=False, extra_body=more)
    assert whole.status == "completed"
    assert whole.output_text.startswith("3, 4")
    assert whole.usage is not None
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens > 20
    with client.responses.create(model="safelight-mini", input=TASK, stream=True, extra_body=more) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(texts) == whole.output_text == events[-1].response.output_text


def test_fields_that_clients_always_send_are_passed_over(client: openai.OpenAI) -> None:
    search: Any = {"type": "web_search"}
    raw = client.responses.with_raw_response.create(
        model="safelight-mini",
        input=TASK,
        store=True,
        include=["reasoning.encrypted_content", "message.output_text.logprobs"],
        truncation="auto",
        reasoning={"summary": "auto"},
        text={"verbosity": "low"},
        tools=[search, {"type": "namespace", "name": "n", "tools": []}, {"type": "custom", "name": "patch"}],
        extra_body={"client_metadata": {"a": "b"}},
    )
    assert set(raw.headers["x-safelight-ignored"].split(", ")) == {
        "truncation", "reasoning.summary", "text.verbosity", "client_metadata",
        "tools.web_search", "tools.custom",
    }  # fmt: skip
    answer = raw.parse()
    assert answer.store is True
    assert answer.tools == []
    [message] = answer.output
    assert message.type == "message"
    [part] = message.content
    assert part.type == "output_text"
    assert part.logprobs
    assert "".join(one.token for one in part.logprobs) == part.text == answer.output_text
    events = list(client.responses.create(model="safelight-mini", input=TASK, top_logprobs=2, stream=True))
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert "".join(one.token for delta in deltas for one in delta.logprobs) == "".join(one.delta for one in deltas)
    assert deltas[0].logprobs[0].top_logprobs


def test_a_chats_refusal_has_the_names_of_a_response(client: openai.OpenAI) -> None:
    for more, param in (
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input.0.content.0"),
        ({"input": [{"type": "web_search_call"}]}, "input.0.type"),
        ({"input": [{"role": "cat", "content": "x"}]}, "input"),
        ({"input": "word " * 2000}, "input"),
        ({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}, "tool_choice"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="safelight-mini", **cast(Any, {"input": TASK, **more}))
        assert refused.value.param == param


WEATHER: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}


def test_thoughts_texts_and_calls_come_through_the_server(scripted: Served) -> None:
    scripted.engine.says = (
        '<|channel>thought\nI ask.<channel|>One moment.<|tool_call>call:weather{city:<|"|>Bonn<|"|>}<tool_call|>'
    )
    asked: Any = {"model": "scripted", "input": "Weather?", "tools": [WEATHER], "reasoning": {"effort": "low"}}
    with client_of(scripted) as client:
        whole = client.responses.create(**asked)
        streamed = list(client.responses.create(**asked, stream=True))
        scripted.engine.fail_at = 0
        failed = list(client.responses.create(**asked, stream=True))
        scripted.engine.fail_at = None
    for found in (whole, streamed[-1].response):
        thought, text, call = found.output
        assert thought.content[0].text == "I ask."
        assert text.content[0].text == "One moment."
        assert (call.name, call.arguments) == ("weather", '{"city": "Bonn"}')
    assert failed[-1].type == "response.failed"
    assert "graphics card fell out" in failed[-1].response.error.message


@pytest.mark.parametrize("is_streamed", [False, True])
def test_tools_of_namespaces_are_called_and_given_back_with_their_namespace(
    scripted: Served, is_streamed: bool
) -> None:
    """Codex sends the tools of MCP servers so: a call without its namespace reaches none of them."""
    engine = scripted.engine
    engine.says = "<|tool_call>call:mcp__time__now{}<tool_call|>"
    now: Any = {**WEATHER, "name": "now"}
    tools: Any = [{"type": "namespace", "name": "mcp__time", "tools": [now]}, {"type": "namespace", "name": 7}]
    asked: Any = {"model": "scripted", "tools": tools}
    with client_of(scripted, is_strict=False) as client:
        found = client.responses.create(input="What time is it?", **asked, stream=is_streamed)
        [call] = (list(found)[-1].response if is_streamed else found).output  # type: ignore[union-attr, list-item]
        assert (call.type, call.name, call.model_extra or {"namespace": call.namespace}) == (
            *("function_call", "now", {"namespace": "mcp__time"}),
        )
        engine.says = "Noon."
        back: Any = [
            {"role": "user", "content": "What time is it?"},
            {"type": "function_call", "call_id": "c", "name": "now", "namespace": "mcp__time", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "12:00"},
        ]
        client.responses.create(input=back, **asked)
    last = engine.requests[-1]
    assert [tool["function"]["name"] for tool in last.tools] == ["mcp__time__now"]
    assert last.messages[1]["tool_calls"][0]["function"]["name"] == "mcp__time__now"
    assert last.messages[2]["name"] == "mcp__time__now"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_conversation_goes_on_from_a_response_or_by_an_items_name(scripted: Served, is_streamed: bool) -> None:
    engine = scripted.engine
    engine.says = '<|tool_call>call:weather{city:<|"|>Bonn<|"|>}<tool_call|>'
    engine.prompts.clear()
    with client_of(scripted, is_strict=False) as client:

        def ask(**more: Any) -> Response:
            asked: Any = {"model": "scripted", "tools": [WEATHER], **more}
            if not is_streamed:
                return client.responses.create(**asked)
            return cast(Response, list(client.responses.create(**asked, stream=True))[-1].response)

        first = ask(input="Weather?")
        call: Any = first.output[0]
        engine.says = "Rain."
        rain: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        second = ask(input=[rain], previous_response_id=first.id)
        ask(input="Thanks.", previous_response_id=second.id)
        named: Any = {"type": "item_reference", "id": call.id}
        ask(input=[{"role": "user", "content": "Weather?"}, named, rain])
        passing = ask(input="Hello.", store=False)
        for more, param in (
            ({"input": "x", "previous_response_id": passing.id}, "previous_response_id"),
            ({"input": [{"type": "item_reference", "id": passing.output[0].id}]}, "input.0.id"),
            ({"input": [{"type": "web_search_call"}], "previous_response_id": first.id}, "input"),
        ):
            with pytest.raises(openai.BadRequestError) as refused:
                ask(**more)
            assert refused.value.param == param
        assert client.responses.retrieve(first.id) == first
        client.responses.delete(first.id)
        for gone in (first.id, passing.id):
            with pytest.raises(openai.NotFoundError, match="is not kept"):
                client.responses.retrieve(gone)
            with pytest.raises(openai.NotFoundError, match="is not kept"):
                client.responses.delete(gone)
        assert client.responses.retrieve(second.id).output_text == "Rain."
    prompts = engine.prompts[::2]  # each is counted, and then run
    roles = [[message["role"] for message in prompt] for prompt in prompts]
    turn = ["user", "assistant", "tool"]
    assert roles == [["user"], turn, [*turn, "assistant", "user"], turn, ["user"]]
    assert prompts[1] == prompts[3] == prompts[2][:3]
    assert (first.store, passing.store, second.previous_response_id) == (True, False, first.id)


def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    kept = KeptResponses(most=100_000)

    def keep(name: str, text: str, previous: str | None = None) -> bool:
        conversation = kept.open(text, previous)
        has_room = kept.has_room(conversation)
        if has_room:
            item = {"type": "message", "id": f"msg_{name}", "content": "y"}
            kept.keep(conversation, {"id": name, "output": [item]})
        return has_room

    def knows(name: str) -> bool:
        item: Any = {"type": "item_reference", "id": f"msg_{name}"}
        try:
            kept.open([item])
        except ApiError:
            with pytest.raises(ApiError, match="not kept"):
                kept.open("x", name)
            return False
        return True

    assert not keep("whole", "x" * 100_000)
    assert all(keep(name, "x" * 30_000) for name in "abc")
    assert knows("a")  # and it is used with that
    assert keep("d", "x" * 30_000)
    assert [name for name in "abcd" if knows(name)] == ["a", "c", "d"]
    assert keep("e", "x" * 30_000, "d")  # it holds what it goes on from
    assert [name for name in "acde" if knows(name)] == ["d", "e"]
    assert not knows("whole")


def test_items_become_the_messages_of_a_chat() -> None:
    body = ResponsesRequest.model_validate(
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I ask."}]},
                {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"at": "Ulm"}'},
                {"type": "function_call", "call_id": "c2", "name": "clock", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "rain"},
                {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "noon"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Rain."}]},
                {"role": "user", "content": "Thanks."},
            ],
        }
    )  # fmt: skip
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"at": "Ulm"}}},
        {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": {}}},
    ]
    assert read_messages(chat_of(body).messages, NO_IMAGES, Ignored()) == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": calls, "reasoning_content": "I ask."},
        {"role": "tool", "content": "rain", "tool_call_id": "c1", "name": "weather"},
        {"role": "tool", "content": "noon", "tool_call_id": "c2", "name": "clock"},
        {"role": "assistant", "content": "Rain."},
        {"role": "user", "content": "Thanks."},
    )


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user"},
        {"role": "user", "content": [{"type": "input_text", "text": "x", "more": 1}]},
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c"},
        {"type": "reasoning", "content": [3]},
        {"type": ["message"]},
    ],
)
def test_an_item_that_is_none_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        chat_of(ResponsesRequest(input=[item]))
    assert refused.value.status == 400
