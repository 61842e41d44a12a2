"""Anthropic's own client against ``/v1/messages``: text, thoughts, tools, images, counts, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from engine.server.anthropic import MessagesRequest, chat_of
from engine.server.messages import read_messages
from engine.server.strict import Ignored
from tests.engine.server.served import KEY, NO_IMAGES, ScriptedEngine, Served, serving

if TYPE_CHECKING:
    from anthropic import Anthropic

HI: Any = [{"role": "user", "content": "Hi"}]
TOOL: Any = {"name": "weather", "description": "Says the weather.", "input_schema": {"type": "object"}}
SAYS = '<|channel>thought\nHm.<channel|>I look.<|tool_call>call:weather{city:<|"|>Bonn<|"|>}<tool_call|>'


def client_of(served: Served, key: str = KEY) -> Anthropic:
    from anthropic import Anthropic  # takes two seconds

    return Anthropic(base_url=served.server.url, api_key=key, max_retries=0, _strict_response_validation=True)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(ScriptedEngine()) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[Anthropic]:
    with client_of(served) as found:
        yield found


def test_its_list_of_models_has_the_loaded_one(served: Served, client: Anthropic) -> None:
    [model] = client.models.list()
    assert (model.id, model.type, model.created_at.tzinfo is not None) == ("scripted", "model", True)
    assert client.models.retrieve("scripted").display_name == model.display_name == "scripted"
    found = served.http.get("/v1/models").json()
    assert (found["object"], found["has_more"]) == ("list", False)
    assert (found["first_id"], found["last_id"]) == ("scripted", "scripted")


def test_a_thought_a_text_and_a_call_come_whole_and_streamed(served: Served, client: Anthropic) -> None:
    served.engine.says = SAYS
    asked: Any = {
        "model": "claude-of-any-kind",
        "max_tokens": 300,
        "messages": HI,
        "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}],
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    }
    raw = client.messages.with_raw_response.create(**asked)
    assert set(raw.headers["x-safelight-ignored"].split(", ")) == {
        "tools.web_search_20250305", "messages.content.cache_control", "model", "thinking_token_budget",
    }  # fmt: skip
    whole = raw.parse()
    with client.messages.stream(**asked) as stream:
        first = next(iter(stream))
        streamed = stream.get_final_message()
    for found in (whole, streamed):
        thought, text, call = found.content
        assert (thought.type, text.type, call.type) == ("thinking", "text", "tool_use")
        assert (thought.thinking, text.text) == ("Hm.", "I look.")
        assert (call.name, call.input) == ("weather", {"city": "Bonn"})
        assert found.stop_reason == "tool_use"
        assert found.model == "scripted"
    assert whole.usage.output_tokens == streamed.usage.output_tokens
    counted = client.messages.count_tokens(
        model=asked["model"], **{name: asked[name] for name in ("messages", "tools", "system", "thinking")}
    )
    for usage in (whole.usage, streamed.usage):
        assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted.input_tokens > 0
    assert first.type == "message_start"
    assert first.message.usage.input_tokens == counted.input_tokens
    assert served.engine.prompts[-1][0] == {"role": "system", "content": "Be brief."}


def test_why_an_answer_ended(served: Served, client: Anthropic) -> None:
    served.engine.says = "One two three four."
    ask = client.messages.create
    assert ask(model="scripted", max_tokens=300, messages=HI).stop_reason == "end_turn"
    cut = ask(model="scripted", max_tokens=5, messages=HI)
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 5)
    stopped = ask(model="scripted", max_tokens=300, messages=HI, stop_sequences=["x", " three"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " three")
    [block] = stopped.content
    assert block.type == "text"
    assert block.text == "One two"


def test_refusals_are_the_client_s_own_errors(served: Served, client: Anthropic) -> None:
    import anthropic

    ask = client.messages.create
    with pytest.raises(anthropic.BadRequestError, match=r"messages.0.content.0: A block of type 'document'"):
        ask(model="scripted", max_tokens=5, messages=[{"role": "user", "content": [{"type": "document"}]}])  # type: ignore[typeddict-item,list-item]
    with pytest.raises(anthropic.NotFoundError, match="is not loaded; available: scripted"):
        ask(model="other", max_tokens=5, messages=HI)
    with pytest.raises(anthropic.BadRequestError, match="cannot see images"):
        ask(model="scripted", max_tokens=5, messages=[{"role": "user", "content": [IMAGE]}])
    with client_of(served, "wrong") as stranger, pytest.raises(anthropic.AuthenticationError):
        stranger.messages.create(model="scripted", max_tokens=5, messages=HI)
    served.engine.fail_at = 0
    with pytest.raises(anthropic.InternalServerError):
        ask(model="scripted", max_tokens=5, messages=HI)
    failing = client.messages.stream(model="scripted", max_tokens=5, messages=HI)
    with pytest.raises(anthropic.APIStatusError), failing as stream:
        stream.get_final_message()
    served.engine.fail_at = None


IMAGE: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def test_blocks_become_the_messages_of_a_chat() -> None:
    written = [
        {"type": "thinking", "thinking": "I ask.", "signature": "s"},
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Ulm"}},
    ]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "text", "text": "there."}]},
        {"role": "assistant", "content": written},
        {"role": "user", "content": [result, {"type": "text", "text": "And?"}]},
    ]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    body = MessagesRequest.model_validate({"messages": messages, "tools": [TOOL], "tool_choice": choice})
    chat = chat_of(body)
    assert (chat.tool_choice, chat.parallel_tool_calls) == ("required", False)
    call = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Ulm"}}}
    assert read_messages(chat.messages, NO_IMAGES, Ignored()) == (
        {"role": "user", "content": "Look:\nthere."},
        {"role": "assistant", "content": "One moment.", "reasoning_content": "I ask.", "tool_calls": [call]},
        {"role": "tool", "content": "rain", "tool_call_id": "t1", "name": "weather"},
        {"role": "user", "content": "And?"},
    )


@pytest.mark.parametrize(("content", "text"), [("no such city", "Error:\nno such city"), (None, "Error:")])
def test_the_model_learns_that_a_call_has_failed(content: Any, text: str) -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": content}
    body = MessagesRequest.model_validate({"messages": [{"role": "user", "content": [block]}]})
    [message] = read_messages(chat_of(body).messages, NO_IMAGES, Ignored())
    assert (message["role"], message["content"]) == ("tool", text)
