"""Formats that answers are held to: the one that reaches the engine from each request, and refusals by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from engine.events import Event, GenerationFinished
from engine.service import RunEnded, RunRequest, RunSteps
from engine.text.output_format import OutputFormat
from tests.engine.server.served import ScriptedEngine, Served, events, refused, serving
from tests.engine.server.test_chat import CALL, TOOLS

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMED = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
OTHER = {"type": "function", "function": {"name": "clock", "parameters": SCHEMA}}
WEATHER = {"name": "weather", "parameters": TOOLS[0]["function"]["parameters"]}
BAD = "the schema fits no text: a number cannot be above 5 and below 3"


class FormattedEngine(ScriptedEngine):
    """Notes the formats that runs are to fit; refuses those of a schema with ``minimum``, as a grammar may."""

    def __init__(self) -> None:
        super().__init__()
        self.able = dataclasses.replace(self.able, structured=True)
        self.formats: list[OutputFormat | None] = []

    def begin(self, request: RunRequest) -> RunSteps:
        self.formats.append(request.output_format)
        if "minimum" in str(request.output_format):
            yield RunEnded(request.run_id, BAD)
        else:
            yield from super().begin(dataclasses.replace(request, output_format=None))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(FormattedEngine()) as served:
        yield served


def sent(served: Served) -> OutputFormat | None:
    return served.engine.formats[-1]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"response_format": NAMED}, OutputFormat("json_schema", SCHEMA)),
        ({"response_format": {"type": "json_object"}}, OutputFormat("json_object")),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, OutputFormat("json_schema", SCHEMA)),
        ({"response_format": {"type": "json_object", "value": SCHEMA}}, OutputFormat("json_schema", SCHEMA)),
        ({"response_format": {"type": "json_object", "schema": {}}}, OutputFormat("json_schema", {})),
        ({"response_format": {"type": "text"}}, None),
        ({"structured_outputs": {"json": '{"type": "object"}'}}, OutputFormat("json_schema", {"type": "object"})),
        ({"structured_outputs": {"regex": "[ab]+"}}, OutputFormat("regex", pattern="[ab]+")),
        ({"structured_outputs": {"choice": ["a", "b"]}}, OutputFormat("choices", choices=("a", "b"))),
        ({"structured_outputs": {"json_object": True, "regex": None}}, OutputFormat("json_object")),
        ({"guided_json": SCHEMA}, OutputFormat("json_schema", SCHEMA)),
        ({"guided_regex": "a", "structured_outputs": {}}, OutputFormat("regex", pattern="a")),
        ({"guided_choice": ["a"]}, OutputFormat("choices", choices=("a",))),
        ({"json_schema": SCHEMA, "grammar": "", "format": None}, OutputFormat("json_schema", SCHEMA)),
    ],
)
def test_each_request_reaches_the_run(served: Served, asked: dict[str, Any], expected: OutputFormat | None) -> None:
    served.engine.says = "thought\nis what it says"  # which is no thought where the format asks for it
    answer = served.chat(**asked).json()
    assert sent(served) == expected
    if expected is not None:
        assert answer["choices"][0]["message"]["content"] == served.engine.says
    assert served.http.post("/v1/completions", json={"prompt": "x", **asked}).status_code == 200
    assert sent(served) == expected


ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "Where?"}], "stream": False, "max_tokens": 9}


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        ("/v1/responses", {"input": "Where?", "text": {"format": {"type": "json_schema", "name": "x",
         "schema": SCHEMA}}}, OutputFormat("json_schema", SCHEMA)),
        ("/v1/messages", {**ASKED, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
         OutputFormat("json_schema", SCHEMA)),
        ("/v1/messages", {**ASKED, "output_format": {"type": "json_schema", "schema": SCHEMA}},
         OutputFormat("json_schema", SCHEMA)),
        ("/api/chat", {**ASKED, "format": SCHEMA}, OutputFormat("json_schema", SCHEMA)),
        ("/api/generate", {"prompt": "Where?", "stream": False, "format": "json"}, OutputFormat("json_object")),
        ("/v1/chat/completions", {**ASKED, "tools": [{"type": "function", "function": {**WEATHER, "strict": True}}]},
         OutputFormat("text_or_calls", tools=(WEATHER,))),
        ("/v1/responses", {"input": "Where?", "tools": [{"type": "function", "strict": True, **WEATHER}]},
         OutputFormat("text_or_calls", tools=(WEATHER,))),
        ("/v1/messages", {**ASKED, "tools": [{"name": "weather", "strict": True,
         "input_schema": WEATHER["parameters"]}]}, OutputFormat("text_or_calls", tools=(WEATHER,))),
    ],
)  # fmt: skip
def test_each_dialect_s_request_reaches_the_run(
    served: Served, path: str, fields: dict[str, Any], expected: OutputFormat
) -> None:
    served.engine.says = "Sunny."
    served.engine.formats.clear()
    answer = served.http.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    assert "Sunny." in answer.text
    assert served.engine.formats == [expected]
    assert all("strict" not in tool["function"] for tool in served.engine.options[-1]["tools"])


def test_a_format_has_small_canvases(served: Served) -> None:
    served.engine.says = "{}"
    asked = {"guided_json": SCHEMA, "vllm_xargs": {"diffusion_min_canvas_length": 4}}
    for more, tokens in (
        ({}, 32),  # the model's own are of 32
        ({"max_tokens": 7}, 8),
        ({"reasoning_effort": "low"}, 256),  # a thought has its own
    ):
        assert served.chat(**asked, **more).status_code == 200
        assert served.engine.configs[-1].canvas(256) == tokens


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {**NAMED, "type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
         "response_format.json_schema.schema"),
        ({"response_format": {**NAMED, "mood": 1}}, "response_format.mood"),
        ({"response_format": {**NAMED, "schema": SCHEMA}}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": SCHEMA, "value": SCHEMA}}, "response_format"),
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"grammar": "a"}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"guided_json": "[]"}, "guided_json"),
        ({"guided_json": {"enum": ["x" * 70_000]}}, "guided_json"),
        ({"guided_choice": ["a" * 2_000]}, "guided_choice"),
        ({"response_format": NAMED, "tools": TOOLS}, "response_format"),
        ({"response_format": NAMED, "tools": TOOLS, "tool_choice": "required"}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "clock"}}}, "tool_choice"),
    ],
)  # fmt: skip
def test_what_is_no_format_is_refused_by_name(served: Served, asked: dict[str, Any], param: str) -> None:
    status, where, sentence = served.refusal(**asked)
    assert (status, where) == (400, param)
    assert sentence.endswith(".")


def test_a_format_that_no_text_fits_is_refused_before_the_run_begins(served: Served) -> None:
    asked = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"minimum": 5}}}}
    for more in ({}, {"stream": True}):
        assert served.refusal(**asked, **more) == (400, "response_format", f"{BAD}.")
    text = {"format": {"type": "json_schema", "name": "x", "schema": {"minimum": 5}}}
    assert refused(served.http.post("/v1/responses", json={"input": "Hi", "text": text}))[:2] == (400, "text.format")


WHY = "the answer can no longer follow its format: it is too complex; make it simpler"


class CutEngine(FormattedEngine):
    """Gives answers that can no longer be held to their format after the first block."""

    def generate(self, *args: Any) -> Iterator[Event]:
        for event in super().generate(*args):
            is_last = isinstance(event, GenerationFinished)
            yield dataclasses.replace(event, reason="length", why=WHY) if is_last else event


def test_an_answer_that_breaks_off_is_cut_and_says_why() -> None:
    with serving(CutEngine()) as served:
        served.engine.says = '{"city": "Bo'
        for path in ("/v1/chat/completions", "/v1/completions"):
            asked = {**ASKED, "prompt": "x", "max_tokens": 90, "guided_json": SCHEMA}
            [choice] = served.http.post(path, json=asked).json()["choices"]
            last = events(served.http.post(path, json={**asked, "stream": True}))[-1]["choices"][0]
            for found in (choice, last):
                assert (found["finish_reason"], found["stop_reason"]) == ("length", WHY)
        text = {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}}
        answer = served.http.post("/v1/responses", json={"input": "Where?", "text": text}).json()
        assert answer["status"] == "incomplete"
        assert answer["incomplete_details"] == {"reason": "max_output_tokens", "message": WHY}
        assert "stop_reason" not in served.chat(max_tokens=3).json()["choices"][0]


def test_a_call_can_be_forced_of_any_tool_or_of_one(served: Served) -> None:
    served.engine.says = CALL
    named = {"type": "function", "function": {"name": "weather"}}
    [choice] = served.chat(tools=[*TOOLS, OTHER], tool_choice=named).json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert sent(served) == OutputFormat("tool_calls", tools=(WEATHER,))
    assert [tool["function"]["name"] for tool in served.engine.options[-1]["tools"]] == ["weather", "clock"]
    chunks = events(served.chat(tools=[*TOOLS, OTHER], tool_choice="required", stream=True))
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert len(sent(served).tools) == 2  # type: ignore[union-attr]
    served.chat(tools=TOOLS, tool_choice="auto")
    assert sent(served) is None


def test_a_model_that_cannot_be_held_to_a_format_says_so() -> None:
    engine = FormattedEngine()
    engine.able = dataclasses.replace(engine.able, structured=False)
    with serving(engine) as plain:
        assert plain.refusal(response_format=NAMED)[:2] == (400, "response_format")
        assert plain.refusal(tools=TOOLS, tool_choice="required")[:2] == (400, "tool_choice")
