"""Answers that may be text, and whose calls fit the schemas of their tools."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from engine.text.formatted_answer import FormattedAnswer
from engine.text.output_format import OutputFormat
from engine.text.tokenizer import Tokenizer
from tests.engine.small import EOS, TOOL_MARKS, build_tokenizer, read_output

ADD = {
    "name": "add",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "unit": {"type": "string", "enum": ["m", "kg"]}},
        "required": ["a", "unit"],
        "additionalProperties": False,
    },
}
OPEN_ENDED = {
    "name": "ask",
    "parameters": {"type": "object", "properties": {"a": {"not": {"type": "null"}}}},
}
GEMMA = Tokenizer(build_tokenizer(TOOL_MARKS))
QWEN = Tokenizer(build_tokenizer(("<tool_call>", "</tool_call>")))
LETTERS = Tokenizer(build_tokenizer())


def begun(tokenizer: Tokenizer, *tools: dict[str, Any]) -> FormattedAnswer:
    size = tokenizer.fast.get_vocab_size()
    return FormattedAnswer.for_prompt(OutputFormat("text_or_calls", tools=tools), tokenizer, size, [EOS], [])


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    found: list[int] = tokenizer.fast.encode(text, add_special_tokens=False).ids
    return found


def goes_on(answer: FormattedAnswer, tokenizer: Tokenizer, text: str) -> str:
    """Takes a text, and returns it as far as it fits."""
    wanted = ids(tokenizer, text)
    return tokenizer.decode(wanted[: answer.take(wanted)], skip_special=False)


def completed(answer: FormattedAnswer, tokenizer: Tokenizer, choices: Sequence[str]) -> str:
    """Writes what is forced, and at each choice the next of the given texts."""
    written, waiting = "", list(choices)
    while not answer.has_ended and not answer.must_end:
        forced = answer.forced()
        if not forced and not waiting:
            break
        taken = tokenizer.decode(forced, skip_special=False) if forced else waiting.pop(0)
        assert goes_on(answer, tokenizer, taken) == taken
        written += taken
    return written


@pytest.mark.parametrize("tokenizer", [GEMMA, QWEN, LETTERS])
def test_a_text_is_free_and_ends_where_the_model_ends_it(tokenizer: Tokenizer) -> None:
    with closing(begun(tokenizer, ADD)) as answer:
        said = 'call:add{a:"x"} is what I would write'
        assert goes_on(answer, tokenizer, said) == said
        assert answer.is_free
        assert answer.forced() == []
        assert not answer.must_end
        assert not answer.has_called
        assert answer.take([*ids(tokenizer, "."), EOS, *ids(tokenizer, "more")]) == 2
        assert answer.has_ended
        assert answer.forced() == []
        assert answer.take(ids(tokenizer, "more")) == 0


@pytest.mark.parametrize(
    ("tokenizer", "tag", "choices"),
    [(GEMMA, "<|tool_call>", ["7", ",", "kg"]), (QWEN, "<tool_call>", ["7", ",", "kg"])],
)
def test_a_call_fits_its_schema_whatever_the_model_would_write(
    tokenizer: Tokenizer, tag: str, choices: list[str]
) -> None:
    with closing(begun(tokenizer, ADD)) as answer:
        assert goes_on(answer, tokenizer, f"I add.{tag}") == f"I add.{tag}"
        assert not answer.is_free
        written = completed(answer, tokenizer, choices)
        assert answer.has_called
        assert read_output(f"I add.\n{tag}{written}") == ("I add.", [("add", {"a": 7, "unit": "kg"})])
        assert goes_on(answer, tokenizer, "no text behind a call") == ""
        assert answer.take([EOS]) == 1
        assert answer.has_ended


def test_what_does_not_fit_is_not_taken() -> None:
    with closing(begun(GEMMA, ADD)) as answer:
        written = "<|tool_call>call:sub{a:1}<tool_call|>"
        assert goes_on(answer, GEMMA, written) == "<|tool_call>call:"
        assert GEMMA.decode(answer.forced(), skip_special=False).startswith("add{a:")
    with closing(begun(GEMMA, ADD)) as answer:
        assert goes_on(answer, GEMMA, "<|tool_call>call:add{a:seven") == "<|tool_call>call:add{a:"
        digits = np.flatnonzero(answer.allowed())
        assert {GEMMA.decode([int(token)]) for token in digits} <= set("-0123456789")


def test_the_arguments_of_a_tool_that_cannot_be_held_to_are_free() -> None:
    with closing(begun(GEMMA, OPEN_ENDED, ADD)) as answer:
        written = "<|tool_call>call:ask{a:what you like}<tool_call|>"
        assert goes_on(answer, GEMMA, written) == written
        assert not answer.failure
        assert answer.has_called


def test_a_thought_comes_before_text_and_calls() -> None:
    tags = ("<|channel>", "<channel|>", *TOOL_MARKS)
    tokenizer = Tokenizer(build_tokenizer(tags))
    with closing(begun(tokenizer, ADD)) as answer:
        said = "<|channel>thought\nA <|tool_call> is no call here.<channel|>Yes.<|tool_call>"
        assert goes_on(answer, tokenizer, said) == said
        assert tokenizer.decode(answer.forced(), skip_special=False).startswith("call:add{a:")
