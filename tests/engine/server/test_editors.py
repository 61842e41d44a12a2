"""The routes of editors, by bodies as their plugins send them: shapes of theirs, words of ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import MINI, WEDLM
from engine.service import CompletionRun, GapRun, LocalBackend, RunRequest
from engine.text.gap_markers import GapFile
from tests.engine.gap_models import causal_folder
from tests.engine.server.openai_client import client_of
from tests.engine.server.served import ScriptedEngine, Served, events, refused, serving, within
from tests.loaded import ReadyBackend

PREFIX, LINE, SUFFIX = "def half(number):\n", "    return ", "\n\nprint(half(4))\n"
LLAMA_VIM = {
    "id_slot": 0, "input_prefix": PREFIX, "input_suffix": SUFFIX, "prompt": LINE, "n_predict": 64, "stop": [],
    "input_extra": [{"text": "DOUBLE = 2\n", "time": [1, 2], "filename": "/home/one/double.py"}], "n_indent": 4,
    "top_k": 40, "top_p": 0.9, "samplers": ["top_k", "top_p", "infill"], "stream": False, "cache_prompt": True,
    "t_max_prompt_ms": 500, "t_max_predict_ms": 60_000,
    "response_fields": ["content", "timings/prompt_ms", "timings/predicted_n", "truncated", "tokens_cached"],
}  # fmt: skip
LLAMA_VSCODE = {
    **{name: value for name, value in LLAMA_VIM.items() if name not in ("stop", "response_fields")},
    "n_cmpl": 1,
    "lora": [{"id": 0, "scale": 0.5}],
}
GAP = {"prompt": PREFIX + LINE, "suffix": SUFFIX}
CONTINUE = {
    **GAP, "model": "mercury-coder-small", "max_tokens": 150, "temperature": 0, "top_p": None, "presence_penalty": 1.5,
    "stop": ["<|endoftext|>", "\n\n", "\n \n"], "stream": True,
}  # fmt: skip
MISTRAL = {**GAP, "model": "codestral-latest", "top_p": 1, "random_seed": 5, "min_tokens": 1, "metadata": {"a": "b"}}
ZED = {
    "model": "scripted",
    "prompt": f"<|fim_prefix|>{PREFIX}{LINE}<|fim_suffix|>{SUFFIX}<|fim_middle|>",
    "max_tokens": 64,
    "stop": ["<|endoftext|>", "<|file_sep|>"],
}


def gap_of(request: RunRequest) -> tuple[str, str]:
    assert isinstance(request, GapRun)
    return request.gap.prefix, request.gap.suffix


class GapEngine(ScriptedEngine):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[RunRequest] = []
        self.says = "number / 2"

    def decode(self, model: Any, task: Any, cache: Any) -> Iterator[Any]:
        self.asked.append(task.request)
        return super().decode(model, task, cache)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(GapEngine()) as served:
        yield served


@pytest.fixture
def engine(served: Served) -> Iterator[GapEngine]:
    """The engine behind the server, as at first."""
    engine: GapEngine = served.engine
    engine.says, engine.hold, engine.steps_run = "number / 2", False, 0
    engine.asked.clear()
    yield engine
    engine.hold = False
    engine.gate.release(100)
    assert within(lambda: served.scheduler.running == 0)
    engine.gate = threading.Semaphore(0)


def test_llama_vim_gets_flat_fields_of_the_text_of_the_gap(served: Served, engine: GapEngine) -> None:
    answer = served.http.post("/infill", json=LLAMA_VIM)
    assert '"content":"number / 2"' in answer.text  # its pattern has no space after the colon
    found = answer.json()
    assert list(found) == LLAMA_VIM["response_fields"]
    assert found["timings/predicted_n"] == len("number / 2")
    assert found["truncated"] is False
    [request] = engine.asked
    assert gap_of(request) == (PREFIX + LINE, SUFFIX)
    assert request.gap.files == (GapFile("/home/one/double.py", "DOUBLE = 2\n"),)
    ignored = answer.headers["x-safelight-ignored"].split(", ")
    assert set(ignored) == {"id_slot", "input_extra.time", "n_indent", "samplers", "cache_prompt", "t_max_prompt_ms"}


def test_nulls_of_an_infill_are_nothing(served: Served, engine: GapEngine) -> None:
    asked = dict.fromkeys(LLAMA_VIM) | {"input_extra": [{"filename": None, "text": None}]}
    for fields in (asked, asked | {"input_prefix": PREFIX, "input_suffix": SUFFIX}):
        answer = served.http.post("/infill", json=fields)
        assert (answer.status_code, answer.json()["content"]) == (200, "number / 2")
    assert gap_of(engine.asked[-1]) == (PREFIX, SUFFIX)


def test_a_call_that_warms_is_answered_at_once(served: Served, engine: GapEngine) -> None:
    warming = {**LLAMA_VIM, "input_prefix": "", "input_suffix": "", "prompt": "", "n_predict": 0, "samplers": []}
    answer = served.http.post("/infill", json={**warming, "response_fields": [""]})
    assert (answer.status_code, answer.json()) == (200, {})
    assert not engine.asked
    assert served.http.post("/infill", json={**warming, "response_fields": None}).json()["content"] == ""


@pytest.mark.usefixtures("engine")
def test_llama_vscode_gets_nested_timings_and_the_context(served: Served) -> None:
    found = served.http.post("/infill", json=LLAMA_VSCODE).json()
    assert (found["content"], found["stop"], found["stop_type"]) == ("number / 2", True, "eos")
    assert found["generation_settings"]["n_ctx"] == 2_000
    assert found["timings"]["predicted_per_token_ms"] > 0
    assert found["tokens_cached"] == found["tokens_evaluated"] + found["tokens_predicted"]
    several = served.http.post("/infill", json={**LLAMA_VSCODE, "n_cmpl": 3}).json()
    assert [one["index"] for one in several] == [0, 1, 2]
    answer = served.http.post("/infill", json={**LLAMA_VSCODE, "stream": True})
    chunks = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
    assert [chunk["stop"] for chunk in chunks] == [False, True]
    assert "".join(chunk["content"] for chunk in chunks) == "number / 2"
    assert chunks[-1]["timings"]["predicted_n"] == len("number / 2")


def test_the_time_ends_an_infill_that_has_a_line(served: Served, engine: GapEngine) -> None:
    engine.hold, engine.says = True, "number\nprint"
    engine.gate.release()
    answer = served.http.post("/infill", json={**LLAMA_VIM, "t_max_predict_ms": 1})
    assert answer.json()["content"] == "number\nprint"  # the settled beginning of a canvas that has two steps left
    assert engine.steps_run == 1


def test_the_time_ends_an_infill_without_a_line_later(served: Served, engine: GapEngine) -> None:
    engine.hold = True
    engine.gate.release()
    answer = served.http.post("/infill", json={**LLAMA_VSCODE, "t_max_predict_ms": 100})
    assert (answer.json()["content"], answer.json()["stop_type"]) == ("number / 2", "limit")
    engine.gate.release()  # the run of that answer ends
    assert served.http.post("/infill", json={**LLAMA_VSCODE, "t_max_predict_ms": 100}).json()["content"] == ""


def test_continue_streams_a_completion_with_a_suffix(served: Served, engine: GapEngine) -> None:
    answer = served.http.post("/v1/completions", json=CONTINUE)
    chunks = events(answer)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "number / 2"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert gap_of(engine.asked[0])[1] == SUFFIX
    served.http.post("/v1/completions", json={**CONTINUE, "suffix": "<|endoftext|>"})
    assert isinstance(engine.asked[-1], CompletionRun)


@pytest.mark.usefixtures("engine")
def test_mistral_s_clients_get_messages(served: Served) -> None:
    found = served.http.post("/v1/fim/completions", json=MISTRAL).json()
    assert found["choices"][0]["message"] == {"role": "assistant", "content": "number / 2", "tool_calls": None}
    assert found["choices"][0]["text"] == "number / 2"  # Inception's read this
    assert (found["object"], found["seed"]) == ("chat.completion", 5)
    chunks = events(served.http.post("/v1/fim/completions", json={**MISTRAL, "stream": True}))
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == "number / 2"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


def test_zed_s_prompt_with_markers_and_ollama_s_suffix_are_gaps(served: Served, engine: GapEngine) -> None:
    found = served.http.post("/v1/completions", json=ZED).json()
    assert found["choices"][0]["text"] == "number / 2"
    assert found["id"]
    assert gap_of(engine.asked[0]) == (PREFIX + LINE, SUFFIX)
    served.http.post("/v1/completions", json={"prompt": "if a < b: <PRE> is no marker by itself"})
    assert isinstance(engine.asked[1], CompletionRun)
    raw = {"model": "scripted", "prompt": PREFIX, "suffix": SUFFIX, "stream": False}
    assert served.http.post("/api/generate", json=raw).json()["response"] == "number / 2"
    assert gap_of(engine.asked[2]) == (PREFIX, SUFFIX)


def test_markers_that_a_model_has_itself_are_left_in_its_prompt(tmp_path: Path) -> None:
    tokens = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|repo_name|>")
    folder = causal_folder(tmp_path / "model", tokens)
    with serving(LocalBackend(), str(folder)) as served:
        raw = served.http.post("/v1/completions", json={**ZED, "model": None, "max_tokens": 4}).json()
        gap = {"prompt": PREFIX + LINE, "suffix": SUFFIX, "max_tokens": 4}
        asked = served.http.post("/v1/completions", json=gap).json()
        assert raw["usage"]["prompt_tokens"] == len(PREFIX + LINE + SUFFIX) + 3
        assert asked["usage"]["prompt_tokens"] == raw["usage"]["prompt_tokens"]
        other = f"<fim_prefix>{PREFIX}{LINE}<fim_suffix>{SUFFIX}<fim_middle>"
        read = served.http.post("/v1/completions", json={"prompt": other, "max_tokens": 4}).json()
        assert read["usage"]["prompt_tokens"] == raw["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"input_prefix": 5}, "input_prefix"),
        ({"input_extra": [{"text": 5}]}, "input_extra.0.text"),
        ({"n_cmpl": 100}, "n_cmpl"),
        ({"response_fields": ["x"] * 65}, "response_fields"),
        ({"t_max_predict_ms": 10**9}, "t_max_predict_ms"),
        ({"model": "another"}, "model"),
        ({"grammar": "root ::= x"}, "grammar"),
        ({"json_schema": {"type": "object"}}, "json_schema"),
        ({"ignore_eos": True}, "ignore_eos"),
    ],
)
def test_bad_input_is_one_line_with_its_field(served: Served, changes: dict[str, Any], field: str) -> None:
    status, at, sentence = refused(served.http.post("/infill", json={**LLAMA_VIM, **changes}))
    assert (status, at) == (404 if field == "model" else 400, field)
    assert "\n" not in sentence


def test_a_real_model_fills_a_gap_for_openai_s_client_and_another_says_which_can() -> None:
    asked: Any = {"prompt": "The word is ", "suffix": " and no other.", "max_tokens": 8, "seed": 1}
    with serving(ReadyBackend(), MINI) as served:
        with client_of(served, is_strict=False) as client:
            whole = client.completions.create(model=MINI, **asked)
            assert whole.usage is not None
            assert 0 < whole.usage.completion_tokens <= 8
            assert asked["suffix"] not in whole.choices[0].text
            stream = client.completions.create(model=MINI, **asked, stream=True)
            assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text
        shown = served.http.post("/api/show", json={"model": MINI}).json()
        assert "insert" in shown["capabilities"]
        assert ".Suffix" in shown["template"]
        assert served.http.get("/v1/models").json()["data"][0]["gaps"] is True
    with serving(ReadyBackend(), WEDLM) as served:
        assert served.http.get("/v1/models").json()["data"][0]["gaps"] is False
        for path, sent in (("/infill", LLAMA_VIM), ("/v1/completions", asked), ("/v1/fim/completions", asked)):
            status, _, sentence = refused(served.http.post(path, json=sent))
            assert status == 400
            assert "take a model of block diffusion" in sentence
