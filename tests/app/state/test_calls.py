"""Rounds of tool calls: read from what a model wrote, and stored within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.state.chat.calls import ToolCall, ToolRound, read_round, rounds_from_json, rounds_to_json
from engine.tools.tool import MAX_CALLS

SCHEMAS: dict[str, Any] = {"add": {"type": "object", "properties": {"first": {"type": "integer"}}}}
ONE = '{"name": "add", "arguments": {"first": 1}}'


@pytest.mark.parametrize(
    "written",
    [
        "<|tool_call>call:add{first:1}<tool_call|>",
        f"<tool_call>\n{ONE}\n</tool_call>",
        ONE,  # as Qwen2.5-Coder 0.5B writes it
        f"```json\n{ONE}\n```",
    ],
)
def test_a_call_is_read_in_each_form(written: str) -> None:
    made = read_round(written, SCHEMAS, 3)
    [call] = made.calls
    assert (made.text, call.called, call.arguments, call.id) == ("", "add", {"first": 1}, "call_3_0")


@pytest.mark.parametrize(
    "written",
    [
        "It is 3.",
        '{"name": "other", "arguments": {}}',
        '{"name": "add", "arguments": "x"}',
        f"{ONE}\n{ONE}",
        "<|tool_call>call:add{first:",
    ],
)
def test_what_is_no_whole_call_is_text(written: str) -> None:
    assert read_round(written, SCHEMAS, 0) is None


def test_text_and_thought_before_calls_are_kept_and_calls_are_bounded() -> None:
    calls = "<|tool_call>call:add{first:2}<tool_call|>" * (MAX_CALLS + 5)
    made = read_round(f"<|channel>thought\nhm<channel|>I add. {calls} And then?", SCHEMAS, 0)
    assert (made.text, made.thinking, len(made.calls)) == ("I add.", "hm", MAX_CALLS)


def test_long_results_are_cut_to_the_room_of_the_library() -> None:
    made = ToolRound("Look.", "", [ToolCall("1", "add", {"first": 1}) for _ in range(MAX_CALLS)])
    for call in made.calls:
        call.end("done", "x" * 50_000, 1.5)
    stored = rounds_to_json([made], 40_000)
    assert len(json.dumps(stored)) <= 40_000
    [read] = rounds_from_json(stored)
    assert (read.text, read.calls[0].arguments, read.calls[0].seconds) == ("Look.", {"first": 1}, 1.5)
    assert set(read.calls[0].result) == {"x"}
    assert rounds_to_json([made], 10) == []


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"path": "a.txt", "content": "x" * 20_000}, {"path": "a.txt"}),
        ({"rows": [{"n": 1}] * 9_000, "title": "Sums"}, {"title": "Sums"}),
        ({f"name{place}" * 50: "é" * 90 for place in range(400)}, {}),
        ({"a" * 30_000: 1}, {}),
    ],
)
def test_long_arguments_keep_their_beginnings(arguments: dict[str, Any], kept: dict[str, Any]) -> None:
    call = ToolCall("1", "write", arguments)
    call.end("done", "")
    stored = rounds_to_json([ToolRound("", "", [call])], 20_000)
    assert len(stored[0]["calls"][0]["arguments"]) <= 8_000
    found = rounds_from_json(stored)[0].calls[0].arguments
    assert found
    assert {name: found[name] for name in kept} == kept
    assert all(str(value).endswith("…") or value in arguments.values() for value in found.values())


@pytest.mark.parametrize(
    "raw", [None, "x", [3], [{}], [{"calls": "x"}], [{"calls": [{}, 7]}], [{"calls": [{"name": 3}]}]]
)
def test_damaged_rounds_are_left_out(raw: Any) -> None:
    assert rounds_from_json(raw) == []
