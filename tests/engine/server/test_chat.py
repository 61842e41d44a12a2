"""Chats over a made-up model: each field that is honoured, and each that is not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from engine.errors import SafelightError
from engine.server.errors import ApiError, refusing
from engine.server.messages import UNSEEN
from tests.engine.server.served import (
    CANVAS,
    CHAT,
    LetterTokenizer,
    ScriptedEngine,
    Served,
    events,
    refused,
    serving,
)

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
]
CALL = '<|tool_call>call:weather{city:<|"|>Bonn<|"|>,days:3}<tool_call|>'


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving(ScriptedEngine()) as served:
        yield served


@pytest.fixture
def served(server: Served) -> Served:
    fresh = ScriptedEngine()
    engine = server.engine
    for name in ("says", "steps", "knows_thinking", "fail_at"):
        setattr(engine, name, getattr(fresh, name))
    for seen in (engine.seeds, engine.configs, engine.prompts, engine.options):
        seen.clear()
    return server


def delta(chunk: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = chunk["choices"][0]["delta"]
    return found


def test_a_stream_comes_by_blocks_and_ends_with_its_usage(served: Served) -> None:
    served.engine.says = "a" * CANVAS + "bc"
    chunks = events(served.chat(stream=True, stream_options={"include_usage": True}))
    assert [delta(chunk) for chunk in chunks[:-1]] == [
        {"role": "assistant", "content": ""},
        {"content": "a" * CANVAS},
        {"content": "bc"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None, None, None, "stop"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == CANVAS + 2
    assert chunks[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 1}
    assert chunks[-1]["timings"]["diffusion_blocks"] == 2
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1


def test_a_thought_is_reported_by_both_names_and_counted(served: Served) -> None:
    served.engine.says = "<|channel>thought\nHm.<channel|>Yes."
    answer = served.chat(chat_template_kwargs={"enable_thinking": True}).json()
    message = answer["choices"][0]["message"]
    assert (message["content"], message["reasoning"], message["reasoning_content"]) == ("Yes.", "Hm.", "Hm.")
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == len("thought\nHm.") + 2
    deltas = [delta(chunk) for chunk in events(served.chat(stream=True, reasoning_effort="low"))]
    assert {"reasoning": "Hm.", "reasoning_content": "Hm."} in deltas
    assert {"content": "Yes."} in deltas


def test_thinking_is_asked_for_by_either_field_but_not_by_both_against_each_other(served: Served) -> None:
    for fields, thinks in (
        ({}, False),
        ({"reasoning_effort": "high"}, True),
        ({"reasoning_effort": "none"}, False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True),
    ):
        served.engine.options.clear()
        assert served.chat(**fields).status_code == 200
        assert served.engine.options[-1]["enable_thinking"] is thinks
    both = {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}
    assert served.refusal(**both)[:2] == (400, "reasoning_effort")
    served.engine.knows_thinking = False
    assert served.chat(reasoning_effort="high").headers["x-safelight-ignored"] == "reasoning_effort"
    assert served.engine.options[-1]["enable_thinking"] is False


def test_a_bound_on_thinking_reaches_the_run_or_is_passed_over(served: Served) -> None:
    field, engine = "thinking_token_budget", ScriptedEngine()
    engine.decoders = ("block_diffusion", "autoregressive")  # its own is the last
    with serving(engine) as bounded:
        for budget in (0, 7):
            assert bounded.chat(**{field: budget}, reasoning_effort="low").status_code == 200
            assert engine.configs[-1].thinking_tokens == budget
        assert bounded.chat("<think>", **{field: 3}).status_code == 200  # the prompt ends in a thought
        assert bounded.chat(reasoning_effort="low").status_code == 200
        assert engine.configs[-1].thinking_tokens is None
        asked = {"input": "Hi", "reasoning": {"effort": "low"}, field: 9}
        assert bounded.http.post("/v1/responses", json=asked).status_code == 200
        assert engine.configs[-1].thinking_tokens == 9
        for fields in ({}, {"reasoning_effort": "low", "decoder": "block_diffusion"}):
            assert bounded.chat(**{field: 5}, **fields).headers["x-safelight-ignored"] == field
            assert engine.configs[-1].thinking_tokens is None
    assert served.refusal(**{field: -1})[:2] == (400, field)


def test_calls_of_tools_are_streamed_with_each_name_once(served: Served) -> None:
    served.engine.says = CALL + CALL
    deltas = [delta(chunk) for chunk in events(served.chat(stream=True, tools=TOOLS))]
    parts = [part for found in deltas for part in found.get("tool_calls", ())]
    firsts = [part for part in parts if "id" in part]
    assert [(part["index"], part["function"]["name"]) for part in firsts] == [(0, "weather"), (1, "weather")]
    assert len({part["id"] for part in firsts}) == 2
    for index in (0, 1):
        arguments = "".join(part["function"]["arguments"] for part in parts if part["index"] == index)
        assert json.loads(arguments) == {"city": "Bonn", "days": 3}
    assert served.engine.options[-1]["tools"] == TOOLS


QWEN = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bonn", "days": 3}}\n</tool_call>'


@pytest.mark.parametrize(
    "says",
    [
        QWEN + "\n" + QWEN,
        QWEN + "\n" + QWEN[:40],  # the second is cut at the end
        "I look." + QWEN + " And then?",
        CALL + CALL[:30],
        CALL.removesuffix("<tool_call|>") + "call:weather{",
        CALL + "And then?",
    ],
)
def test_a_run_ends_after_its_first_call_where_they_must_not_be_parallel(served: Served, says: str) -> None:
    served.engine.says = says
    [choice] = served.chat(tools=TOOLS, parallel_tool_calls=False).json()["choices"]
    [call] = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(call["function"]["arguments"]) == {"city": "Bonn", "days": 3}
    assert (choice["message"]["content"] or "") == ("I look." if says.startswith("I") else "")
    chunks = events(served.chat(tools=TOOLS, parallel_tool_calls=False, stream=True))
    assert sum("id" in part for chunk in chunks for part in delta(chunk).get("tool_calls", ())) == 1
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_half_a_call_is_not_passed_off_as_a_call(served: Served) -> None:
    served.engine.says = CALL
    [choice] = served.chat(tools=TOOLS, max_tokens=20).json()["choices"]
    assert choice["finish_reason"] == "length"


def test_tools_are_shown_only_where_they_may_be_called(served: Served) -> None:
    assert served.chat(tools=TOOLS, tool_choice="none").status_code == 200
    assert served.engine.options[-1]["tools"] == []
    assert served.refusal(tools=TOOLS * 2)[:2] == (400, "tools")


def test_a_history_with_calls_reaches_the_template(served: Served) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None, "reasoning": "Hm.", "tool_calls": [call], "refusal": None},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]
    assert served.http.post(CHAT, json={"messages": messages, "tools": TOOLS}).status_code == 200
    system, user, assistant, tool = served.engine.prompts[-1]
    assert system == {"role": "system", "content": "Be brief."}
    assert user["content"] == "one\ntwo"
    assert assistant["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Bonn"}}
    assert (assistant["content"], assistant["reasoning_content"]) == ("", "Hm.")
    assert tool == {"role": "tool", "content": "rain", "tool_call_id": "c1", "name": "weather"}


def test_the_answer_ends_before_a_stop_string_also_across_blocks(served: Served) -> None:
    served.engine.says = "x" * (CANVAS - 2) + "STOP and more " + "y" * CANVAS
    for stop in ("STOP", ["nothing", "STOP"]):
        chunks = events(served.chat(stream=True, stop=stop))
        assert "".join(delta(chunk).get("content", "") for chunk in chunks) == "x" * (CANVAS - 2)
        assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    served.engine.says = "an S at the end: S"
    assert served.chat(stop="SS").json()["choices"][0]["message"]["content"] == served.engine.says


def test_the_answer_is_cut_at_a_token(served: Served) -> None:
    served.engine.says = "abcdefgh"
    for name in ("max_tokens", "max_completion_tokens"):
        answer = served.chat(**{name: 3}).json()
        [choice] = answer["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("abc", "length")
        assert answer["usage"]["completion_tokens"] == 3
    assert served.refusal(max_tokens=3, max_completion_tokens=4)[0] == 400


def test_probabilities_are_those_of_the_content_alone(served: Served) -> None:
    served.engine.says = "<|channel>thought\nHm.<channel|>ab.c"
    [choice] = served.chat(logprobs=True, top_logprobs=2, stop=".").json()["choices"]
    known = choice["logprobs"]["content"]
    assert [entry["token"] for entry in known] == ["a", "b"]
    assert known[0]["logprob"] == pytest.approx(math.log(0.75))
    assert known[0]["bytes"] == [97]
    assert [top["token"] for top in known[0]["top_logprobs"]] == ["a", "?"]
    chunks = events(served.chat(stream=True, logprobs=True))
    entries = [entry for chunk in chunks for entry in (chunk["choices"][0]["logprobs"] or {}).get("content", ())]
    assert [entry["token"] for entry in entries] == list("ab.c")
    assert entries[0]["top_logprobs"] == []
    assert served.refusal(top_logprobs=2)[0] == 400


def test_seeds_are_taken_or_made_and_reported(served: Served) -> None:
    assert served.chat(seed=2**63 - 1).json()["seed"] == served.engine.seeds[-1] == 2**63 - 1
    assert served.chat().json()["seed"] == served.engine.seeds[-1] != served.chat().json()["seed"]
    assert served.chat(temperature=0).json()["seed"] == 0


def test_cuts_reach_the_canvas_s_sampler(served: Served) -> None:
    assert "x-safelight-ignored" not in served.chat(top_p=0.9, top_k=40, min_p=0.1).headers
    config = served.engine.configs[-1]
    assert (config.sampling_top_p, config.sampling_top_k, config.sampling_min_p) == (0.9, 40, 0.1)
    assert config.cuts
    served.chat(top_p=1, top_k=-1, min_p=0)
    assert not served.engine.configs[-1].cuts
    assert served.refusal(top_p=1.5)[:2] == (400, "top_p")


def test_temperature_scales_the_model_s_own(served: Served) -> None:
    own = served.engine.defaults
    for asked, share in ((None, 1), (1, 1), (0, 0.5), (0.5, 0.75), (2, 2)):
        served.chat(temperature=asked)
        config = served.engine.configs[-1]
        assert (config.t_max, config.t_min) == pytest.approx((own.t_max * share, own.t_min * share))


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("n", 17), ("modalities", ["audio"]), ("best_of", 3), ("grammar", 'root ::= "a"'), ("guided_grammar", "x"),
        ("format", "json"), ("format", {"type": "object"}), ("continue_final_message", True), ("min_tokens", 5),
        ("add_generation_prompt", False), ("ignore_eos", True), ("stop_token_ids", [5]), ("bad_words", ["no"]),
        ("chat_template", "{{ 1 }}"), ("echo", True), ("allowed_token_ids", [5]), ("truncate_prompt_tokens", 5),
        ("temperature", 3), ("temperature", "warm"), ("seed", -2), ("seed", 2**63), ("max_tokens", -2), ("stream", 1),
        ("stop", list("abcdefghijklmnopq")), ("top_logprobs", 21), ("top_p", "warm"), ("token_thoughts", "yes"),
        ("vllm_xargs.diffusion_max_steps", 0), ("vllm_xargs", {"magic": 1}), ("vllm_xargs", {"diffusion_rescue": 1}),
        ("vllm_xargs.diffusion_stall_steps", -1), ("messages", []), ("messages.0.content", [{"role": "user"}]),
        ("messages.0.role", [{"role": "wizard", "content": "x"}]),
        ("messages.0.reasoning", [{"role": "user", "content": "x", "reasoning": "y"}]),
        ("messages.0.content.0", [{"role": "user", "content": [{"type": "text"}]}]),
        ("messages.0.content.0", [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_by_name(served: Served, param: str, value: Any) -> None:
    field, _, inner = param.partition(".")
    is_inner = field == "vllm_xargs" and inner
    fields = {field: {inner: value} if is_inner else value, "logprobs": field == "top_logprobs"}
    status, found, message = served.refusal(**fields)
    assert (status, found) == (400, param)
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/responses", {"input": []}, "input: must have 1 or more entries."),
        ("/v1/completions", {"prompt": [10**9]}, "prompt.0: must be 2097152 or less."),
        ("/v1/completions", {"prompt": 5}, "prompt: must be a text or a list."),
        (CHAT, {"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role: must be 'system', 'developer'"),
        ("/v1/responses", {"input": "x", "text": {"format": {"type": "q"}}}, "text.format: its type must be"),
    ],
)
def test_a_refusal_says_what_must_be(served: Served, path: str, body: dict[str, Any], message: str) -> None:
    assert refused(served.http.post(path, json=body))[2].startswith(message)


def test_a_tool_s_image_is_left_out_and_said_where_the_model_does_not_see(served: Served) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "seen"}, shown]},
    ]
    answer = served.http.post(CHAT, json={"messages": asked})
    assert (answer.status_code, answer.headers["x-safelight-ignored"]) == (200, "messages.content.image_url")
    assert served.engine.prompts[-1][-1]["content"] == f"seen\n{UNSEEN}"
    assert [message["role"] for message in served.engine.prompts[-1]] == ["user", "assistant", "tool"]


def test_a_refusal_ends_with_one_full_stop() -> None:
    for reason, sentence in (("no", "no."), ("no.", "no."), ("why?", "why?")):
        with pytest.raises(ApiError) as caught, refusing("messages"):
            raise SafelightError(reason)
        assert caught.value.message == sentence
    assert ApiError(400, "a\x1b[31mred\x9b").message == "a\N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}"


PASSED_OVER: list[tuple[dict[str, Any], str]] = [
    ({"presence_penalty": 0.5}, "presence_penalty"),
    ({"frequency_penalty": -1}, "frequency_penalty"),
    ({"repetition_penalty": 1.2}, "repetition_penalty"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"store": True}, "store"),
    ({"service_tier": "priority"}, "service_tier"),
    ({"keep_alive": "5m", "cache prompt": True, "": 1}, "keep_alive, cache?prompt, ?"),
    ({"chat_template_kwargs": {"mood": 1}}, "chat_template_kwargs.mood"),
    ({"stream": True, "stream_options": {"mood": 1}}, "stream_options.mood"),
    ({"messages": [{"role": "user", "content": "x", "name": "Ada", "mood": "good"}]}, "messages.mood, messages.name"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]}]},
     "messages.content.cache_control"),
    ({"presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "store": False, "service_tier": "auto",
      "modalities": ["text"], "user": "u", "metadata": {"a": "b"}, "stop": None, "tools": []}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "names"), PASSED_OVER, ids=lambda value: value if isinstance(value, str) else "")
def test_what_can_do_nothing_is_passed_over_and_named(served: Served, fields: dict[str, Any], names: str) -> None:
    answer = served.chat(**fields)
    assert (answer.status_code, answer.headers.get("x-safelight-ignored", "")) == (200, names)
    assert served.server.live.snapshot()[0].ignored == (tuple(names.split(", ")) if names else ())
    assert answer.headers["x-request-id"].startswith("req_")
    assert served.chat().headers["x-request-id"] != answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "fields",
    [
        {  # of a program that writes out what is not set
            "messages": [{"role": "user", "content": "x", "name": None, "tool_calls": None, "cache_control": None}],
            "audio": None, "functions": None, "verbosity": None, "stream_options": None, "model": "", "tools": None,
        },
        {  # litellm's, in a second turn
            "messages": [
                {"role": "user", "content": "x"},
                {
                    "role": "assistant", "content": "y", "tool_calls": None, "function_call": None,
                    "provider_specific_fields": {"refusal": None},
                },
                {"role": "user", "content": "z"},
            ],
            "extra_body": None,
        },
    ],
)  # fmt: skip
def test_requests_of_other_programs_are_answered(served: Served, fields: dict[str, Any]) -> None:
    answer = served.http.post(CHAT, json=fields)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == served.engine.says
    assert answer.json()["model"] == "scripted"


def test_a_prompt_that_does_not_fit_is_refused_and_no_turn_is_dropped(served: Served) -> None:
    served.engine.prompts.clear()
    long = [{"role": "user", "content": "x" * 1_500}, {"role": "user", "content": "y" * 490}]
    response = served.http.post(CHAT, json={"messages": long})
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert all(len(prompt) == 2 for prompt in served.engine.prompts)


def test_an_answer_is_as_long_as_there_is_room(served: Served) -> None:
    served.engine.says = "y" * 4_000
    for asked in (1_990, 10**9):
        answer = served.chat("x" * 100, max_tokens=asked).json()
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == 1_900
    assert served.chat(max_tokens=-1, seed=-1).json()["usage"]["completion_tokens"] > 1_900
    answer = served.chat(max_tokens=0).json()
    assert answer["choices"][0] | {"logprobs": None} == {
        "index": 0,
        "message": {"role": "assistant", "content": "", "refusal": None},
        "finish_reason": "length",
        "logprobs": None,
    }
    assert served.refusal("x" * 1_999)[:2] == (400, "messages")


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        ({"diffusion_sampler": "confidence-threshold", "threshold": 0.6},
         {"acceptance": "confidence_threshold", "entropy_bound": 0.1, "accept_probability": 0.6}),
        ({"vllm_xargs": {"diffusion_sampler": "entropy_bound_kept", "diffusion_threshold": "0.25"}},
         {"acceptance": "entropy_bound_kept", "entropy_bound": 0.25, "accept_probability": 0.9}),
        ({"threshold": 2.5}, {"acceptance": "entropy_bound", "entropy_bound": 2.5, "accept_probability": 0.9}),
        ({"vllm_xargs": {"diffusion_max_steps": "7", "diffusion_stall_steps": "6", "diffusion_canvas_length": 4}},
         {"acceptance": "entropy_bound", "max_denoising_steps": 7, "stall_steps": 6, "canvas_length": 4}),
    ],
)  # fmt: skip
def test_settings_of_diffusion_go_by_others_names(
    served: Served, sent: dict[str, Any], changed: dict[str, Any]
) -> None:
    assert served.chat(**sent).status_code == 200
    config = served.engine.configs[-1]
    assert {name: getattr(config, name) for name in changed} == changed


def test_a_short_answer_asks_for_a_small_canvas(served: Served) -> None:
    for sent, tokens in (
        ({}, 256),
        ({"max_tokens": 20}, 64),
        ({"max_tokens": 100}, 128),
        ({"max_tokens": 20, "diffusion_min_canvas_length": 16}, 32),
    ):
        assert served.chat(**sent).status_code == 200, sent
        assert served.engine.configs[-1].canvas(256) == tokens, sent


def test_other_models_are_not_found(served: Served) -> None:
    response = served.chat(model="gpt-5")
    assert refused(response)[:2] == (404, "model")
    assert response.json()["error"]["code"] == "model_not_found"
    assert served.http.get("/v1/models/gpt-5").status_code == 404
    assert served.http.get("/v1/models/scripted").json()["id"] == "scripted"


def test_a_fault_of_the_model_is_an_error_of_the_stream(served: Served) -> None:
    served.engine.fail_at = 1
    assert served.refusal()[0] == 500
    chunks = events(served.chat(stream=True))
    assert "graphics card fell out" in chunks[-1]["error"]["message"]


def test_a_completion_goes_on_from_text_or_tokens(served: Served) -> None:
    served.engine.says = "<|channel>thought\nx<channel|> and so on"
    for prompt in ("Once", ["Once"], LetterTokenizer().encode("Once")):
        answer = served.http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 40, "logprobs": 1}).json()
        assert answer["usage"]["prompt_tokens"] == len("Once") + (not isinstance(prompt[0], int))  # none is added
        [choice] = answer["choices"]
        assert choice["text"] == "thought\nx and so on"
        assert choice["finish_reason"] == "stop"
        assert choice["logprobs"]["text_offset"][-1] == len(choice["logprobs"]["tokens"]) - 1


def test_a_refusal_is_a_line_whatever_the_field_is_called(served: Served) -> None:
    body = {"input": "x", "metadata": {"a\n" * 5_000: 5}}
    status, param, sentence = refused(served.http.post("/v1/responses", json=body))
    assert (status, len(param or "")) == (400, 200)
    assert sentence.startswith("'metadata.a\\n")
    assert len(sentence) < 300
