"""A model's output to content, thought and tool calls: the grammar, every complaint about others, and any pieces."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from engine.text.output import OutputParser
from engine.text.output_parts import ToolCallPart
from engine.text.tags import starts_in_thought
from engine.text.tool_arguments import MAX_DEPTH
from engine.text.tool_call import MAX_CALL, MAX_CALLS
from tests.engine.text.outputs import (
    SCHEMAS,
    Output,
    ToolCall,
    gathered,
    parse_output,
    parts_of,
    problem,
    random_call,
    random_output,
    split,
)


def read(text: str, **options: Any) -> tuple[str, str]:
    """Content and thought of a text without calls, whole; in single characters it must be the same."""
    found = parse_output(text, schemas=SCHEMAS, **options)
    assert problem(text, list(text), **options) == ""
    assert not found.tool_calls
    return found.content, found.thought


def arguments(text: str) -> Any:
    """The arguments of the one call that stands between the tags of a call."""
    text = f"<|tool_call>call:weather{text}<tool_call|>"
    found = parse_output(text, schemas=SCHEMAS)
    assert problem(text, list(text)) == ""
    assert (found.content, found.thought, [call.name for call in found.tool_calls]) == ("", "", ["weather"])
    return json.loads(found.tool_calls[0].arguments_json)


@pytest.mark.parametrize(
    ("text", "content", "thought"),
    [
        ("", "", ""),
        ("<|channel>thought\nFirst.\n\nThen.\n<channel|>Answer.", "Answer.", "First.\n\nThen."),
        ("<|channel>thought\n<channel|>Answer.", "Answer.", ""),
        ("<|channel>thought", "", ""),
        ("<|channel>thoughtful<channel|>x", "x", "thoughtful"),
        ("\n thought\nFirst.<channel|>Answer.", "Answer.", "First."),
        ("thought", "thought", ""),
        ("<channel|>Answer.", "Answer.", ""),
        ("a <tool_call|> b", "a b", ""),
        ('<|channel>thought\nsay <|"|>hi<|"|> x<tool_call|>y<channel|>z', "z", 'say "hi" xy'),
        ("<|channel>thought\na<|channel>thought\nb<channel|>c", "c", "a\n\nb"),
        ("<|channel>thought\na<channel|>b<|channel>thought\nc<channel|> d", "b d", "a\n\nc"),
        ("<think>\nhm\n</think>\n\nAnswer.", "Answer.", "hm"),
        ("Write `<think>` and `</think>` around it.", "Write `<think>` and `</think>` around it.", ""),
        ("First.\n<think>hm</think>Then.", "First.\nThen.", "hm"),
        ("<|channel>thought\nabout </think> tags<channel|>x", "x", "about </think> tags"),
        ('He said <|"|>yes<|"|> twice.', 'He said "yes" twice.', ""),
        ("Done.<turn|>\n<|turn>user\nnoise", "Done.", ""),
        ("if a <|b and c|> d <tool x", "if a <|b and c|> d <tool x", ""),
        ("cut in a <|chan", "cut in a ", ""),
        ("<|chan<tool_call|>nel>x", "<|chan nel>x", ""),
        ('<|<|"|>|>', '<| "|>', ""),
    ],
)
def test_content_and_thought(text: str, content: str, thought: str) -> None:
    assert read(text) == (content, thought)


def test_a_thought_that_the_prompt_opened_is_gone_on_with() -> None:
    assert read("more.<channel|>Answer.", starts_in_thought=True) == ("Answer.", "more.")
    assert read("more.</think>Answer.", starts_in_thought=True) == ("Answer.", "more.")
    assert read("thought\nmore.", starts_in_thought=True) == ("", "more.")


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("<|turn>model\n", False),
        ("<|turn>model\n<|channel>thought\n<channel|>", False),
        ("<|turn>model\n<|channel>thought\n", True),
        ("<|turn>model\n<|channel>thought\nhm<|tool_call>call:f{}<tool_call|><|tool_response>…<tool_response|>", False),
        ("<tool_call|><|tool_response>response:f{}<tool_response|><|channel>thought\n", True),
        ("<|turn>user\nwhat is <|channel>?<turn|>\n<|turn>model\n", False),
        ('<|turn>system\n<|think|><|"|><|channel>x<|"|><|think|>', True),
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("user: what does <think> do?\nassistant:", False),
        ("", False),
    ],
)
def test_whether_a_prompt_ends_inside_a_thought(tail: str, expected: bool) -> None:
    assert starts_in_thought(tail) is expected


BOTH = Output("", "", (ToolCall("f", "{}"), ToolCall("g", "{}")))
SUNNY = ToolCall("weather", '{"city": "Oslo", "days": 2}')
QWEN = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 2}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ('{city:<|"|>Zürich, "a" {b}: c\\n<|"|>,days:3}', {"city": 'Zürich, "a" {b}: c\\n', "days": 3}),
        ('{<|"|>city<|"|>:<|"|>P<|"|> , \n days : 3 \n}', {"city": "P", "days": 3}),
        ('{"city":"Pa\\"ris\\u00e9","days":"3"}', {"city": 'Pa"risé', "days": 3}),
        ('{city:"\\ud800"}', {"city": "\ufffd"}),
        ('(city=<|"|>P<|"|>, days=3)', {"city": "P", "days": 3}),
        ('({city:<|"|>P<|"|>})', {"city": "P"}),
        ("{city:New York,days:3}", {"city": "New York", "days": 3}),
        ("{city:01234,days:01}", {"city": "01234", "days": 1}),
        ('{days:<|"|>12<|"|>,exact:<|"|>false<|"|>}', {"days": 12, "exact": False}),
        ("{days:3.0,share:3.,city:3.}", {"days": 3, "share": 3.0, "city": "3."}),
        ("{share:null,unit:null,city:null}", {"share": None, "unit": None, "city": None}),
        ("{share:1e999,days:" + "9" * 400 + "}", {"share": "1e999", "days": "9" * 400}),
        ("{places:[{zip:01,n:1},{zip:02}]}", {"places": [{"zip": "01", "n": 1}, {"zip": "02"}]}),
        ("{other:[1,a b,true,null,[],{}]}", {"other": [1, "a b", True, None, [], {}]}),
        ("{other:f(a, [b]),days:1}", {"other": "f(a, [b])", "days": 1}),
        ("{city:,days:,,other}", {}),
        ("{days:1,days:2,places:[],places:[{zip:1}]}", {"days": 1, "places": []}),
        ('{city:<|"|>a<|"|> and so on,days:1}', {"city": "a", "days": 1}),
        ('{city:<|"|>never closed', {"city": "never closed"}),
        ("{other:[1,{a:2", {"other": [1, {"a": 2}]}),
        ("{other:{},days:1)}", {"other": {}, "days": "1)"}),
    ],
)
def test_arguments(text: str, expected: dict[str, Any]) -> None:
    assert arguments(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|tool_call>:f{}<tool_call|><|tool_call>call:g{}<tool_call|>", BOTH),
        ("Wait.\n<|tool_call>call:f{}<tool_call|>", Output("Wait.\n", "", (ToolCall("f", "{}"),))),
        ("<|channel>thought\nhm<|tool_call>call:f{}<tool_call|>x", Output("x", "hm", (ToolCall("f", "{}"),))),
        ("<|tool_call>call:f{}<|tool_response>", Output("", "", (ToolCall("f", "{}"),))),
        ("<|tool_call>call:f{<|tool_call>call:g{}<turn|>", BOTH),
        ("<|tool_call>call:f{}call:g{}<tool_call|>", BOTH),
        ("<|tool_call>call:f{}}} <tool_call|>x", Output("x", "", (ToolCall("f", "{}"),))),
        ("<|tool_call>call:f{}\nI called f.", Output("I called f.", "", (ToolCall("f", "{}"),))),
        ("<|tool_call>call:f{} and so<channel|>on", Output("and soon", "", (ToolCall("f", "{}"),))),
        ("<|tool_call>call:f{a:1<|channel>thought\nhm", Output("", "hm", (ToolCall("f", '{"a": 1}'),))),
        ("<|tool_call>unknown{a:1}<tool_call|> x", Output("unknown{a:1} x")),
        ('<|tool_call>call:<|"|>f<|"|>{}<tool_call|>', Output("", "", (ToolCall("f", "{}"),))),
        ("<|tool_call><think>hm</think>x", Output("x", "hm")),
        ("<|tool_call>" + "x" * 300 + "call:f{}", Output("x" * 300 + "call:f{}")),
        ("<|tool_call>call:f{}" + "x" * 300 + "<tool_call|>", Output("x" * 300, "", (ToolCall("f", "{}"),))),
        # cut short by the end of the text
        ("<|tool_call>call:wea", Output("")),
        ("<|tool_call>call:f{", Output("", "", (ToolCall("f", "{", True),))),
        ('<|tool_call>call:f{a:<|"|>rm -r /ho', Output("", "", (ToolCall("f", '{"a": "rm -r /ho', True),))),
        ("<|tool_call>call:f{a:12", Output("", "", (ToolCall("f", '{"a": ', True),))),
        ("<|tool_call>call:f{a:12}", Output("", "", (ToolCall("f", '{"a": 12}'),))),
        # in JSON, as Qwen writes them
        (QWEN, Output("", "", (SUNNY,))),
        (f"<think>\nhm\n</think>\n\n{QWEN}\n{QWEN}", Output("", "hm", (SUNNY, SUNNY))),
        (QWEN.removesuffix("</tool_call>"), Output("", "", (SUNNY,))),
        ('<tool_call>{"name": "f", "parameters": {}}</tool_call>', Output("", "", (ToolCall("f", "{}"),))),
        ('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>',
         Output("", "", (ToolCall("f", '{"a": 1}'),))),
        ('<tool_call>{"name": "f"}</tool_call>ok', Output("ok", "", (ToolCall("f", "{}"),))),
        ('<tool_call>{"name": "f", "arguments": {"a": "</think> <think>"}}</tool_call>',
         Output("", "", (ToolCall("f", '{"a": "</think> <think>"}'),))),
        ("Write <tool_call> and </tool_call>.", Output("Write <tool_call> and </tool_call>.")),
        ("<tool_call>no call</tool_call>", Output("no call")),
        ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', Output('{"name": "f", "arguments": [1]}')),
        ('<tool_call>{"name": "f", "argu', Output('{"name": "f", "argu')),
        # slips of Gemma 4
        ("<think>hm<channel|>call:weather{days:2}", Output("", "hm", (ToolCall("weather", '{"days": 2}'),))),
        ("<channel|>\n call : weather(days=2)<tool_call|>x", Output("x", "", (ToolCall("weather", '{"days": 2}'),))),
        ("<channel|>call:weather{days:2}call:weather{days:3}", Output("", "", (
            ToolCall("weather", '{"days": 2}'), ToolCall("weather", '{"days": 3}')))),
        ("<channel|>call:unknown{days:2}", Output("call:unknown{days:2}")),
        ("<channel|>call: the plumber.", Output("call: the plumber.")),
        ("<channel|>cal<channel|>l:weather{}", Output("call:weather{}")),
        ("<channel|>So call:weather{days:2}", Output("So call:weather{days:2}")),
        ("call:weather{days:2}", Output("call:weather{days:2}")),
        ("<|tool_call>:call:weather{days:2}<tool_call|>", Output("", "", (ToolCall("weather", '{"days": 2}'),))),
        ("<|tool_call>: call : weather{days:2}<tool_call|>", Output("", "", (ToolCall("weather", '{"days": 2}'),))),
    ],
)  # fmt: skip
def test_calls(text: str, expected: Output) -> None:
    assert parse_output(text, schemas=SCHEMAS) == expected
    assert problem(text, list(text)) == ""


def in_json(arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'weather', 'arguments': arguments})}\n</tool_call>"


@pytest.mark.parametrize(
    "text",
    [
        "a </tool_call> b",
        "a\n</tool_call>\n<tool_call>\nb",
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
        'say "</tool_call>" and \\"</tool_call>\\"',
        "<think>hm</think>\n<think>\n",
        "<|channel>thought\nhm<channel|> <turn|> <|tool_call>call:f{}<tool_call|><|tool_response>",
        "\\",
    ],
)
def test_in_a_string_of_a_call_in_json_no_tag_counts(text: str) -> None:
    for arguments in ({"city": text}, {text: [text]}, json.dumps({"city": text})):
        meant = json.loads(arguments) if isinstance(arguments, str) else arguments
        for before, after in (("", ""), ("I look.\n", "\nThen."), ("I look. ", "Then.")):
            written = f"{before}{in_json(arguments)}{after}"
            found = parse_output(written, schemas=SCHEMAS)
            assert problem(written, list(written)) == ""
            assert [(call.name, json.loads(call.arguments_json)) for call in found.tool_calls] == [("weather", meant)]
            assert found.content.split() == f"{before}{after}".split()


def test_line_breaks_in_a_string_of_a_call_may_be_written_as_they_are() -> None:
    text = in_json({"city": "a\n</tool_call>\n\tb"}).replace("\\n", "\n").replace("\\t", "\t")
    (call,) = parse_output(text).tool_calls
    assert json.loads(call.arguments_json) == {"city": "a\n</tool_call>\n\tb"}
    assert problem(text, list(text)) == ""


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        # a quotation mark is missing: the tags count, and the next call is read
        ('<tool_call>{"name": "f", "arguments": {"a": "x}}</tool_call>\n' + QWEN,
         '{"name": "f", "arguments": {"a": "x}}', 1),
        ('<tool_call>{"name": "f", "arguments": {"a": "x</tool_call>No.', '{"name": "f", "arguments": {"a": "xNo.', 0),
        ('<tool_call>{"name": "f", "arguments": {"a": "<think>x</think>', '{"name": "f", "arguments": {"a": "x', 0),
        ('<tool_call>{"name": "f"} and so on</tool_call>x', '{"name": "f"} and so onx', 0),
        # on a line with other text
        (f"Let me check.{QWEN}", "Let me check.", 1),
        (f"Let me check. {QWEN} And {QWEN}", "Let me check. And ", 2),
        (f"`{QWEN.replace('weather', 'unknown')}`", f"`{QWEN.replace('weather', 'unknown')}`", 0),
        ("Write <tool_call> and\n" + QWEN, "Write <tool_call> and\n", 1),
        ('Write <tool_call>{"name": "weather", <think>\n', 'Write <tool_call>{"name": "weather", <think>\n', 0),
        ("A <tool_call>" * 40 + "\n" + QWEN, "A <tool_call>" * 40 + "\n", 1),
        ("thought<tool_call>" + QWEN.removeprefix("<tool_call>"), "thought", 1),
    ],
)  # fmt: skip
def test_what_is_a_call_in_json_and_what_is_not(text: str, content: str, calls: int) -> None:
    found = parse_output(text, schemas=SCHEMAS)
    assert problem(text, list(text)) == ""
    assert (found.content, found.tool_calls) == (content, (SUNNY,) * calls)


def test_beginnings_of_calls_are_read_again_a_bounded_number_of_times() -> None:
    text = '\n<tool_call>{"a": "' * 1_000
    for pieces in ([text], list(text)):
        assert not any(isinstance(part, ToolCallPart) for part in parts_of(pieces))


def test_what_was_meant_is_read() -> None:
    for number in range(60):
        text, meant = random_call(Random(number))
        (call,) = parse_output(text).tool_calls
        assert json.loads(call.arguments_json) == meant, text


RESPONSE = '<|tool_call>call:f{}<tool_call|><|tool_response>response:f{value:<|"|>12<|"|>}<tool_response|>'
CALLED = '<|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|>'


@pytest.mark.parametrize(
    ("prompt", "text", "expected"),
    [
        (f"{RESPONSE}<|channel>thought\n", "It is 12.<channel|>Twelve.", Output("Twelve.", "It is 12.")),
        ("<|turn>model\n", "<|channel>thought\nIt is <", Output("", "It is <")),
        ("", f"See.{CALLED}{CALLED}", Output("See.", "", (ToolCall("weather", '{"city": "Oslo"}'),) * 2)),
        ("", f"<|channel>thought\nLook.{CALLED}<|channel>thought\nSo.<channel|>Cold.",
         Output("Cold.", "Look.\n\nSo.", (ToolCall("weather", '{"city": "Oslo"}'),))),
        ("<|channel>thought\n<channel|>", "<turn|>", Output("")),
    ],
)  # fmt: skip
def test_complaints_about_others(prompt: str, text: str, expected: Output) -> None:
    begins = starts_in_thought(prompt)
    assert parse_output(text, starts_in_thought=begins, schemas=SCHEMAS) == expected
    assert problem(text, list(text), starts_in_thought=begins) == ""


def test_a_call_that_is_too_long_or_too_deep_stays_cut() -> None:
    for text in ("{a:" + "[" * MAX_DEPTH + "1]}", '{a:<|"|>' + "x" * (MAX_CALL + 1) + '<|"|>}'):
        found = gathered(parts_of([f"<|tool_call>call:f{text}<tool_call|>after"]))
        assert [call.is_cut for call in found.tool_calls] == [True]
        assert found.content == "after"
    (call,) = parse_output("<|tool_call>call:f{a:" + "[" * (MAX_DEPTH - 1) + "1<tool_call|>").tool_calls
    assert not call.is_cut


def test_calls_without_end_become_content() -> None:
    found = parse_output("<|tool_call>call:f{}<tool_call|>" * (MAX_CALLS + 2))
    assert len(found.tool_calls) == MAX_CALLS
    assert found.content == "call:f{}" * 2


def longest_text(value: object) -> int:
    """The length of the longest string that an object holds."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple | set | frozenset | dict):
        return max((longest_text(each) for each in value), default=0)
    return longest_text(vars(value)) if type(value).__module__.startswith("engine.") else 0


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        ("", "x"), ("", "<"), ("", " "), ("", "thought"), ("", '<|"|>'), ("", "<|tool_call>"), ("", "<think>"),
        ("<|channel>", " "), ("<|channel>thought\nx", "\n"), ("<|tool_call>", "x"), ("<|tool_call>call:f{", "x"),
        ("<|tool_call>call:f{a", '<|"|>'),
        ('<tool_call>{"a": "', "x"), ('<tool_call>{"a": "', "</tool_call>"), ("a <tool_call>{", "["),
        ("<channel|>", " "),
        ("<|tool_call>call:f{", '<|"|>'), ("<|tool_call>call:f(", "x{"), ("<|tool_call>call:f{a:", "x"),
        ("<|tool_call>call:f{a:", "(,"), ('<|tool_call>call:f{a:"', "\\"), ("<|tool_call>call:f{a:", "[1],"),
        ('<|tool_call>call:weather{days:<|"|>', "1"), ("<|tool_call>call:f{}", "}"), ("<|tool_call>call:f{", "a:1,"),
    ],
)  # fmt: skip
def test_no_text_is_gone_through_with_every_piece(head: str, piece: str) -> None:
    parser, count = OutputParser(schemas=SCHEMAS), 1_000
    parser.feed(head)
    for _ in range(count):
        parser.feed(piece)
    assert longest_text(parser) < 500  # none grows with the output
    parser.finish()


@pytest.mark.parametrize("numbers", [range(400), pytest.param(range(400, 2_000), marks=pytest.mark.slow)])
def test_pieces_make_no_difference_and_no_tag_is_given_out(numbers: range) -> None:
    for number in numbers:
        random = Random(number)
        text = random_output(random)
        found = problem(text, split(random, text), starts_in_thought=random.random() < 0.2)
        assert found == "", f"{text!r}: {found}"
