"""Hugging Face's client against a real server of the skills model, and requests as other programs send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub import InferenceClient

from engine.service import LocalBackend
from tests.engine.server.served import CHAT, KEY, Served, serving

MODEL = "safelight-mini"
ASKED, ANSWER = {"role": "user", "content": "Reverse the word robot."}, "tobor"
AGAIN = {"role": "user", "content": "What is 47 + 5?"}
# As these programs document what they send by default; they were not run for it.
DEFAULTS: dict[str, dict[str, Any]] = {
    "SillyTavern": {
        "messages": [ASKED], "temperature": 1, "max_tokens": 100, "stream": False, "presence_penalty": 0,
        "frequency_penalty": 0, "top_p": 1, "stop": [], "logit_bias": {}, "n": 1, "logprobs": False, "top_logprobs": 0,
    },
    "one that writes out what is not set": {
        "messages": [{**ASKED, "name": None, "tool_calls": None, "cache_control": None}], "stop": None, "tools": None,
        "audio": None, "functions": None, "verbosity": None, "stream_options": None, "model": "",
    },
    "litellm, a second turn": {
        "messages": [
            ASKED,
            {
                "role": "assistant", "content": ANSWER, "tool_calls": None, "function_call": None,
                "provider_specific_fields": {"refusal": None},
            },
            AGAIN,
        ],
        "extra_body": None,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(LocalBackend(), MODEL) as served:
        yield served


def test_huggingface_hub_chats_and_streams(served: Served) -> None:
    client = InferenceClient(base_url=f"{served.server.url}/v1", api_key=KEY)  # it names no model
    answer = client.chat_completion([ASKED], max_tokens=20, seed=1)
    message = answer.choices[0].message
    assert (message.content, answer.model, answer.choices[0].finish_reason) == (ANSWER, MODEL, "stop")
    assert client.chat_completion([ASKED, message, AGAIN], model=MODEL).choices[0].message.content == "52"
    chunks = list(client.chat_completion([ASKED], stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    assert chunks[-1].usage.completion_tokens == len(ANSWER)


@pytest.mark.parametrize("name", DEFAULTS)
def test_requests_of_other_programs_are_answered(served: Served, name: str) -> None:
    answer = served.http.post(CHAT, json={"model": MODEL, **DEFAULTS[name]})
    assert answer.status_code == 200, answer.text
    assert ("52" if AGAIN in DEFAULTS[name]["messages"] else ANSWER) in answer.text
    assert f'"model":"{MODEL}"' in answer.text
