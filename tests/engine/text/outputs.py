"""Outputs of a model made from a seed: of the grammar, and with every kind of disorder; and what must hold of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.text.output import OutputParser, Schemas
from engine.text.output_parts import (
    ContentPart,
    OutputPart,
    ThoughtPart,
    ToolCallPart,
    joined_text,
)
from engine.text.tags import CALL, CALL_END, CLOSE, JSON_CALL, JSON_CALL_END, MARK, OPEN, TAGS, THINK, THINK_END

SCHEMAS: dict[str, dict[str, Any]] = {
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "share": {"type": ["number", "null"]},
            "exact": {"type": "boolean"},
            "places": {"type": "array", "items": {"type": "object", "properties": {"zip": {"type": "string"}}}},
            "unit": {"anyOf": [{"enum": ["C", "F"]}, {"$ref": "#/$defs/none"}]},
        },
        "$defs": {"none": {"type": "null"}},
    }
}
LETTER_TAGS = (THINK, THINK_END, JSON_CALL, JSON_CALL_END)
WORDS = (
    "the ", "city", " of ", "Zürich", "漢字", "👩‍👩‍👧", "\n", "\n\n", "  ", "\t", "thought", "thought\n", "call",
    "call:", ":", ",", "{", "}", "[", "]", "(", ")", "=", '"', "'", "\\", "\\n", "\\u00e9", "1", "-2.", "3e9", "0",
    "true", "null", "None", "<", "<|", "|>", "<ch", "<|chan", "nel>", "channel|>", "<tool", "tool_call|>", "<|to",
    "ol_call>", '<|"', "<th", "ink>", "</", "a < b", "weather", "call:weather{", ":weather{", "call:weather(", "city:",
    "days:", "\x00", "\u2028", "`code`", "x" * 40,
)  # fmt: skip


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool. If ``is_cut``, the arguments are only the beginning of a JSON object."""

    name: str
    arguments_json: str
    is_cut: bool = False


@dataclass(frozen=True)
class Output:
    """All of a model's output."""

    content: str
    thought: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


def parse_output(text: str, *, starts_in_thought: bool = False, schemas: Schemas | None = None) -> Output:
    parser = OutputParser(starts_in_thought=starts_in_thought, schemas=schemas or {})
    return gathered([*parser.feed(text), *parser.finish()])


def random_value(random: Random, depth: int = 0) -> Any:
    """A value that the grammar can write."""
    match random.randrange(8 if depth < 3 else 6):
        case 0:
            return random.choice((True, False, None))
        case 1:
            return random.randrange(-99, 10**6)
        case 2:
            return random.randrange(1000) / 8
        case 6:
            return [random_value(random, depth + 1) for _ in range(random.randrange(4))]
        case 7:
            return {name: random_value(random, depth + 1) for name in random.sample(("a", "b c", "é", "of"), 2)}
    text = "".join(random.choice(WORDS) for _ in range(random.randrange(6)))
    return re.sub("|".join(map(re.escape, (*TAGS, "\x00"))), "", text)


def written(random: Random, value: Any) -> str:
    """A value as the model writes it."""
    gap = random.choice(("", "", " ", "\n"))
    if isinstance(value, str):
        return f"{MARK}{value}{MARK}"
    if isinstance(value, list):
        return "[" + f",{gap}".join(written(random, item) for item in value) + "]"
    if isinstance(value, dict):
        key = random.choice(("{}", f"{MARK}{{}}{MARK}"))
        return (
            "{"
            + f"{gap},".join(f"{gap}{key.format(k)}:{gap}{written(random, v)}" for k, v in value.items())
            + gap
            + "}"
        )
    return json.dumps(value)


def random_call(random: Random) -> tuple[str, dict[str, Any]]:
    """A well-formed call of a tool without a schema, and its arguments."""
    meant = {f"k{number}": random_value(random) for number in range(random.randrange(4))}
    head, arguments = random.choice(("call:", ":", "call: ")) + "tool", written(random, meant)
    if random.random() < 0.2:
        arguments = f"({arguments[1:-1]})"
    return f"{CALL}{head}{arguments}{CALL_END}", meant


def random_output(random: Random, pieces: int = 14) -> str:
    """An output: some are in order, most are not."""
    parts: list[str] = []
    for _ in range(random.randrange(1, pieces)):
        match random.randrange(10):
            case 0:
                parts += [random.choice((OPEN, THINK)), "thought\n" * random.randrange(2), random.choice(WORDS)]
                parts += [random.choice((CLOSE, THINK_END, ""))]
            case 1:
                parts.append(random_call(random)[0])
            case 2:
                name = random.choice(list(SCHEMAS["weather"]["properties"]))
                value = random.choice((*WORDS, f"{MARK}12{MARK}", "12", "[{zip:01,"))
                parts += [CALL, "call:weather{", name, ":", value, random.choice(("}", ",days:3}", "", "}}")), CALL_END]
            case 3:
                meant = {"name": random.choice(("weather", "f")), "arguments": {"text": "".join(
                    random.choices((*TAGS, *WORDS), k=4)
                )}}  # fmt: skip
                parts += [random.choice(("", "\n")), JSON_CALL, json.dumps(meant), JSON_CALL_END]
            case 4 | 5:
                parts.append(random.choice(TAGS))
            case _:
                parts += random.choices(WORDS, k=random.randrange(1, 4))
    if random.random() < 0.3:
        parts = [part[: random.randrange(len(part) + 1)] if random.random() < 0.2 else part for part in parts]
    return "".join(parts)


def split(random: Random, text: str) -> list[str]:
    """The text in pieces, some of them empty."""
    most = random.choice((1, 2, 5, 20, 300))
    pieces, place = [], 0
    while place < len(text):
        length = random.randrange(most + 1) if most > 1 else 1
        pieces.append(text[place : place + length])
        place += length
    return pieces


def parts_of(pieces: Iterable[str], *, starts_in_thought: bool = False) -> list[OutputPart]:
    """Returns what a parser gives out for a text in pieces."""
    parser = OutputParser(starts_in_thought=starts_in_thought, schemas=SCHEMAS)
    parts = [part for piece in pieces for part in parser.feed(piece)]
    return parts + parser.finish()


def gathered(parts: list[OutputPart]) -> Output:
    """Parts put together as a client does; a call's arguments must be the beginning of JSON."""
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    assert [call.index for call in calls] == list(range(len(calls)))
    for call in calls:
        json.loads(completed(call.arguments))
    made = (ToolCall(call.name, call.arguments, call.is_cut) for call in calls)
    return Output(joined_text(parts, ContentPart), joined_text(parts, ThoughtPart), tuple(made))


def completed(beginning: str) -> str:
    """The beginning of a JSON object, as it is given out, with the least that makes it whole."""
    closers: list[str] = []
    in_string = False
    for sign in re.findall(r'\\.|["{}\[\]]', beginning):
        if sign == '"':
            in_string = not in_string
        elif sign in "{[" and not in_string:
            closers.append("}" if sign == "{" else "]")
        elif sign in "}]" and not in_string:
            closers.pop()
    value = '"' if in_string else "null" if beginning.endswith((": ", ", ")) else ""
    return beginning + value + "".join(reversed(closers))


def problem(text: str, pieces: list[str], *, starts_in_thought: bool = False) -> str:
    """Returns what is wrong with how a text is read, whole and in pieces; empty where nothing is."""
    whole = gathered(parts_of([text], starts_in_thought=starts_in_thought))
    apart = gathered(parts_of(pieces, starts_in_thought=starts_in_thought))
    if apart != whole:
        return f"whole: {whole}; in pieces: {apart}"
    for call in whole.tool_calls:
        if not call.is_cut and not isinstance(json.loads(call.arguments_json), dict):
            return f"no object: {call}"
    called = () if JSON_CALL in text else whole.tool_calls  # in a string of JSON a tag is text
    for shown in (whole.content, whole.thought, *(f"{call.name} {call.arguments_json}" for call in called)):
        found = [tag for tag in TAGS if tag in shown and tag not in LETTER_TAGS]
        if found:
            return f"{found} in {shown!r}"
    if re.search(r"(?m)^\s*</?think>", f"{whole.content}\0{whole.thought}"):
        return f"think: {whole}"
    return ""
