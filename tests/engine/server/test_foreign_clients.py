"""Clients that nobody here wrote, as they are used, against a real server of the skills model; and what others send."""

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
SYSTEM = {"role": "system", "content": "Be brief."}
PARTS = {"role": "user", "content": [{"type": "text", "text": ASKED["content"]}]}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
PENALTIES = {"presence_penalty": 0, "frequency_penalty": 0, "top_p": 1}
# Told from what these programs send by default, not from a run of them.
DEFAULTS: dict[str, dict[str, Any]] = {
    "Open WebUI": {**USAGE, "messages": [ASKED]},
    "Open WebUI, a title": {"messages": [ASKED], "stream": False, "max_completion_tokens": 100},
    "LibreChat": {"temperature": 1, **PENALTIES, "user": "65f", "stream": True, "messages": [ASKED]},
    "LobeChat": {**PENALTIES, **USAGE, "messages": [ASKED], "temperature": 1},
    "SillyTavern": {
        "messages": [ASKED], "temperature": 1, "max_tokens": 100, "stream": False, **PENALTIES, "stop": [],
        "logit_bias": {}, "n": 1, "logprobs": False, "top_logprobs": 0,
    },
    "Cline": {**USAGE, "messages": [SYSTEM, PARTS], "temperature": 0},
    "an editor": {"messages": [ASKED], "temperature": 0.1, "top_p": 1, "max_tokens": 64, "n": 1, "stream": True},
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


@pytest.fixture
def url(served: Served) -> str:
    return f"{served.server.url}/v1"


def test_huggingface_hub_chats_and_streams(url: str) -> None:
    client = InferenceClient(base_url=url, api_key=KEY)  # it names no model
    said = client.chat_completion([ASKED], max_tokens=20, seed=1)
    message = said.choices[0].message
    assert (message.content, said.model, said.choices[0].finish_reason) == (ANSWER, MODEL, "stop")
    assert client.chat_completion([ASKED, message, AGAIN], model=MODEL).choices[0].message.content == "52"
    chunks = list(client.chat_completion([ASKED], stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    assert chunks[-1].usage.completion_tokens == len(ANSWER)


@pytest.mark.parametrize("name", DEFAULTS)
def test_what_others_send_by_default_is_answered(served: Served, name: str) -> None:
    said = served.http.post(CHAT, json={"model": MODEL, **DEFAULTS[name]})
    assert said.status_code == 200, said.text
    assert ("52" if AGAIN in DEFAULTS[name]["messages"] else ANSWER) in said.text
    assert f'"model":"{MODEL}"' in said.text
