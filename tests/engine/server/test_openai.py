"""OpenAI's own client, which checks each answer's shape, against the embedded model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import openai
import pytest
from pydantic import BaseModel, Field

from engine.catalog import BASE, GAPS, MINI, WEDLM
from tests.engine.server.openai_client import client_of
from tests.engine.server.served import ScriptedEngine, Served, events, serving
from tests.loaded import ReadyBackend

QUESTION: Any = [{"role": "user", "content": "Reverse the word robot."}]
COUNTING: Any = [{"role": "user", "content": "Count from 4 to 43."}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
BRIEF = {"vllm_xargs": {"diffusion_max_steps": 1}, "max_tokens": 8}
QUICK = {"vllm_xargs": {"diffusion_max_steps": 2}}
SAYS = '<|channel>thought\nHm.<channel|>I look.<|tool_call>call:weather{city:<|"|>Bonn<|"|>}<tool_call|>'


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(ReadyBackend(), MINI) as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with client_of(served) as client:
        yield client


def test_an_answer_comes_whole_or_streamed_and_its_seed_repeats_it(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=MINI, messages=QUESTION, seed=3)
    assert whole.choices[0].message.content == "tobor"
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage is not None
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + 5
    options: Any = {"include_usage": True}
    with client.chat.completions.create(
        model=MINI, messages=QUESTION, seed=3, stream=True, stream_options=options
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "tobor"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens_details is not None
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == whole.usage.prompt_tokens


def test_completions_and_models(client: openai.OpenAI) -> None:
    prompt = f"<|turn>user\n{QUESTION[0]['content']}<turn|>\n<|turn>model\n"
    text = client.completions.create(model=MINI, prompt=prompt, max_tokens=64, seed=3, logprobs=2)
    assert text.choices[0].text == "tobor"
    assert text.choices[0].logprobs is not None
    assert text.choices[0].logprobs.tokens == list("tobor")
    assert [model.id for model in client.models.list()] == [MINI]
    assert client.models.retrieve(MINI).id == MINI
    replaced = client.chat.completions.create(model="safelight-skills", messages=QUESTION, seed=3)
    assert replaced.choices[0].message.content == "tobor"


def test_refusals_are_the_client_s_own_errors(served: Served, client: openai.OpenAI) -> None:
    ask = client.chat.completions.create
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(model=MINI, messages=QUESTION, modalities=["audio"])
    assert refusal.value.param == "modalities"
    with pytest.raises(openai.NotFoundError, match=f"available: {MINI}"):
        ask(model="other", messages=QUESTION)
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(model=MINI, messages=[{"role": "user", "content": "word " * 200}])
    assert refusal.value.code == "context_length_exceeded"
    with pytest.raises(openai.InternalServerError, match="no embeddings"):
        client.embeddings.create(model=MINI, input="x")
    with client_of(served, "wrong") as stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_a_model_whose_template_knows_no_tools_says_so() -> None:
    with (
        serving(ReadyBackend(), GAPS) as served,
        client_of(served) as client,
        pytest.raises(openai.BadRequestError, match="does not support tools"),
    ):
        client.chat.completions.create(model=GAPS, messages=QUESTION, tools=[TOOL])


def test_a_decision_is_the_same_each_time(client: openai.OpenAI) -> None:
    questions: Any = [
        {"type": "predicate", "instructions": "Is 12 larger than 7?", "name": "larger"},
        {"type": "choice", "instructions": "Which is larger?", "choices": [{"value": "12"}, {"value": False}]},
        {"type": "score", "instructions": "How large is it?", "levels": [{"label": "small"}, {"label": "large"}]},
    ]
    first, again = (client.decisions.create(model=MINI, input="12 and 7", questions=questions) for _ in range(2))
    assert [answer.type for answer in first.answers] == ["predicate", "choice", "score"]
    assert first.answers[0].name == "larger"
    assert again.answers == first.answers
    assert again.usage.input_tokens_details.cached_tokens > 0


class Animal(BaseModel):
    """The schema of an answer."""

    model_config = {"extra": "forbid"}
    kind: Literal["cat", "dog"]
    legs: Annotated[int, Field(ge=0, le=8)]


def test_an_answer_is_parsed_by_the_schema_that_it_was_held_to(client: openai.OpenAI) -> None:
    asked: Any = {"model": MINI, "messages": QUESTION, "response_format": Animal, "seed": 1, "extra_body": QUICK}
    whole = client.chat.completions.parse(**asked)
    assert isinstance(whole.choices[0].message.parsed, Animal)
    assert whole.choices[0].finish_reason == "stop"
    with client.chat.completions.stream(**asked) as stream:
        assert stream.get_final_completion().choices[0].message.content == whole.choices[0].message.content
    answer = client.responses.parse(model=MINI, input=QUESTION[0]["content"], text_format=Animal)
    assert isinstance(answer.output_parsed, Animal)
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**asked, max_tokens=3)
    pattern = {"guided_regex": "(ab){2,3}", **QUICK}
    text = client.completions.create(model=MINI, prompt="Reverse", extra_body=pattern, seed=1)
    assert text.choices[0].text in ("abab", "ababab")


@pytest.mark.parametrize("fields", [{"logprobs": True, "top_logprobs": 2}, {"stop": ["z" * 20]}])
def test_a_stream_of_a_causal_decoder_has_a_piece_for_each_token(served: Served, fields: dict[str, Any]) -> None:
    asked = {"seed": 1, "temperature": 0, "max_tokens": 30, "decoder": "autoregressive", **fields}
    prompt = "Write the alphabet backwards: sort z y x w v u t s r q p o n m l k."
    answer = served.chat(prompt, **asked).json()
    [whole], usage = answer["choices"], answer["usage"]
    chunks = [chunk["choices"][0] for chunk in events(served.chat(prompt, **asked, stream=True))]
    pieces = [chunk["delta"]["content"] for chunk in chunks if chunk["delta"].get("content")]
    assert "".join(pieces) == whole["message"]["content"]
    assert chunks[-1]["finish_reason"] == whole["finish_reason"]
    assert "stop" in fields or len(pieces) >= min(usage["completion_tokens"], 15) - 3  # the first signs wait for a tag
    known = [chance for chunk in chunks for chance in (chunk.get("logprobs") or {"content": []})["content"]]
    assert known == ((whole["logprobs"] or {"content": []})["content"] if "logprobs" in fields else [])


def test_every_token_has_the_probability_by_which_it_was_written() -> None:
    with serving(ReadyBackend(), WEDLM) as served, client_of(served) as client:
        asked: Any = {"model": WEDLM, "messages": COUNTING, "max_tokens": 40}
        known = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2).choices[0].logprobs
        assert known is not None
        assert known.content is not None
        assert len(known.content) == 40  # more than two blocks
        for entry in known.content:
            likeliest, other = entry.top_logprobs
            assert (entry.token, entry.logprob) == (likeliest.token, likeliest.logprob)
            assert 0 >= likeliest.logprob > other.logprob


def test_tools_and_thoughts_pass_its_checks_and_its_accumulator() -> None:
    engine = ScriptedEngine()
    engine.says = SAYS
    with serving(engine) as served, client_of(served) as client:
        with client.chat.completions.stream(model="scripted", messages=QUESTION, tools=[TOOL]) as stream:
            streamed = stream.get_final_completion()
        whole = client.chat.completions.create(model="scripted", messages=QUESTION, tools=[TOOL])
        for answer in (streamed, whole):
            [choice] = answer.choices
            assert choice.finish_reason == "tool_calls"
            assert choice.message.content == "I look."
            assert choice.message.tool_calls is not None
            [call] = choice.message.tool_calls
            assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Bonn"}')  # type: ignore[union-attr]
            assert (choice.message.model_extra or {})["reasoning"] == "Hm."
        back: Any = [*QUESTION, whole.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
        assert client.chat.completions.create(model="scripted", messages=back, tools=[TOOL]).choices
        assert engine.prompts[-1][1]["reasoning_content"] == "Hm."  # type: ignore[comparison-overlap]


def test_an_adapter_goes_by_its_name_behind_the_model_s() -> None:
    with serving(ReadyBackend(), BASE) as served, client_of(served) as client:
        assert [model.id for model in client.models.list()] == [BASE, f"{BASE}:sudoku-lora"]
        answer = client.chat.completions.create(model=f"{BASE}:sudoku-lora", messages=QUESTION, extra_body=BRIEF)
        assert answer.model == f"{BASE}:sudoku-lora"
        live = served.server.live.snapshot()[0]
        assert live.trace is not None
        assert live.trace.header.model.adapter
        client.chat.completions.create(model=BASE, messages=QUESTION, extra_body=BRIEF)
        live = served.server.live.snapshot()[0]
        assert live.trace is not None
        assert not live.trace.header.model.adapter
