"""Tools, calls, results and thoughts in a chat template, as the released model's is known to write them."""

from __future__ import annotations

from typing import Any

import pytest

from engine import SafelightError
from engine.text.chat_template import ChatTemplate
from tests.engine.text.outputs import ToolCall, parse_output
from tests.engine.text.tool_template import CALL, QUESTION, RESULT, TEMPLATE, WEATHER

DECLARED = (
    '<|tool>declaration:weather{description:<|"|>The weather of a city<|"|>,parameters:{properties:{'
    'city:{description:<|"|>Its name<|"|>,type:<|"|>STRING<|"|>},'
    'days:{items:{type:<|"|>INTEGER<|"|>},type:<|"|>ARRAY<|"|>}},required:[<|"|>city<|"|>],type:<|"|>OBJECT<|"|>}}<tool|>'
)
CALLED = '<|tool_call>call:weather{city:<|"|>Zürich "ZH"<|"|>,days:[1,2],exact:true,in:null}<tool_call|>'
ANSWERED = '<|tool_response>response:weather{value:<|"|>cold, 3 degrees<|"|>}<tool_response|>'
SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate(TEMPLATE, {"bos_token": "<bos>"})


def test_a_tool_is_declared_in_the_system_turn(template: ChatTemplate) -> None:
    assert template.render([SYSTEM, QUESTION], [WEATHER], enable_thinking=True) == (
        f"<bos><|turn>system\n<|think|>\nBe brief.{DECLARED}<turn|>\n<|turn>user\nIs it cold?<turn|>\n<|turn>model\n"
    )
    assert template.render([QUESTION]) == (
        "<bos><|turn>user\nIs it cold?<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"
    )


def test_a_result_follows_its_call_in_the_same_turn(template: ChatTemplate) -> None:
    thought = "<|channel>thought\nI look it up.\n<channel|>"
    begin = f"<bos><|turn>system\n{DECLARED}<turn|>\n<|turn>user\nIs it cold?<turn|>\n<|turn>model\n"
    assert template.render([QUESTION, CALL, RESULT], [WEATHER]) == f"{begin}{thought}{CALLED}{ANSWERED}"
    answer = {"role": "assistant", "content": "Yes. <|channel>thought\nhm<channel|>"}
    later = template.render([QUESTION, CALL, RESULT, answer, QUESTION], [WEATHER])
    assert later.startswith(f"{begin}{CALLED}{ANSWERED}Yes.<turn|>\n<|turn>user\n")  # without thoughts of earlier turns


def test_a_call_that_was_rendered_is_read_back(template: ChatTemplate) -> None:
    text = template.render([QUESTION, CALL, RESULT], [WEATHER]).partition("<|turn>model\n")[2]
    found = parse_output(text, schemas={"weather": WEATHER["function"]["parameters"]})
    arguments = '{"city": "Zürich \\"ZH\\"", "days": [1, 2], "exact": true, "in": null}'
    assert (found.thought, found.tool_calls) == ("I look it up.", (ToolCall("weather", arguments),))


def test_parts_of_a_message(template: ChatTemplate) -> None:
    parts = [{"type": "text", "text": "What is "}, {"type": "image"}, {"type": "text", "text": "?"}, {"type": "audio"}]
    assert "<|turn>user\nWhat is<|image|>?<|audio|><turn|>\n" in template.render([{"role": "user", "content": parts}])


def many(count: int) -> list[dict[str, Any]]:
    """Tools of twenty parameters each, as they are in the wild."""
    members = {f"parameter_{n}": {"type": "string", "description": "What it is. " * 8} for n in range(20)}
    function = {**WEATHER["function"], "parameters": {"type": "object", "properties": members}}
    return [{"type": "function", "function": function}] * count


def test_many_tools_are_within_the_budget(template: ChatTemplate) -> None:
    assert template.render([QUESTION], many(50)).count("<|tool>") == 50


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        found = {"type": "object", "properties": {"a": found}}
    return {"type": "function", "function": {**WEATHER["function"], "parameters": found}}


def shared(depth: int) -> dict[str, Any]:
    """Small in memory, and without end once it is written."""
    found: list[Any] = [1]
    for _ in range(depth):
        found = [found] * 10
    return {"type": "function", "function": {**WEATHER["function"], "enum": found}}


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([nested(100)], "the tools are nested deeper than 32 levels; simplify them"),
        ([shared(20)], "the tools hold more than 20,000 values; send fewer of them"),
        ([{"x": "y" * 2**21}], "the tools have more than 1,048,576 characters; send fewer or shorter ones"),
        ([{"x": object()}], "the tools hold a object, which is neither text nor JSON; remove it"),
        (many(400), "the tools hold more than"),
    ],
)
def test_hostile_tools_are_refused_in_a_sentence(template: ChatTemplate, tools: list[Any], why: str) -> None:
    with pytest.raises(SafelightError, match=why):
        template.render([QUESTION], tools)
    with pytest.raises(SafelightError, match="the messages are nested deeper than 32 levels; simplify them"):
        template.render([{**CALL, "tool_calls": [nested(100)]}])
