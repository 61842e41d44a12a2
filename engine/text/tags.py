"""The tags in a model's output, and a splitter that cuts arriving text at them.

A tag is one token, written out: ``<|channel>thought\\n…<channel|>`` is a thought,
``<|tool_call>call:NAME{…}<tool_call|>`` a tool call, ``<|"|>`` a string's mark in it. Other models write a thought as
``<think>…</think>``, and a call as ``<tool_call>{"name": …, "arguments": …}</tool_call>`` (Qwen, Hermes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.text.tokenizer import Tokenizer

OPEN, CLOSE = "<|channel>", "<channel|>"
THOUGHT = "thought"
"""The name of a thought's channel, in a line of its own after ``OPEN``."""
THINK, THINK_END = "<think>", "</think>"
THINK_ASKED = "<|think|>"
"""The tag with which a prompt asks for a thought."""
CALL, CALL_END = "<|tool_call>", "<tool_call|>"
MARK = '<|"|>'
JSON_CALL, JSON_CALL_END = "<tool_call>", "</tool_call>"
ENDS = frozenset(("<|turn>", "<turn|>", "<|tool_response>"))
"""Tags that end generation: text after them is no output."""
TAGS = (OPEN, CLOSE, THINK, THINK_END, CALL, CALL_END, MARK, JSON_CALL, JSON_CALL_END, *sorted(ENDS),
        "<tool_response|>", "<|tool>", "<tool|>", THINK_ASKED)  # fmt: skip

CUT_SHORT = 4
"""Least length from which the beginning of a tag at the very end is a cut tag, and not text."""

_TAG = re.compile("(" + "|".join(re.escape(tag) for tag in TAGS) + ")")
_BEGINNINGS = frozenset(tag[:length] for tag in TAGS for length in range(1, len(tag)))
_LONGEST_TAG = max(len(tag) for tag in TAGS)


def beginning(text: str) -> str:
    """Returns the end of a text that may be the beginning of a tag; empty if it is none."""
    place = text.rfind("<", max(0, len(text) - _LONGEST_TAG + 1))
    return text[place:] if place >= 0 and text[place:] in _BEGINNINGS else ""


def starts_in_thought(prompt: str) -> bool:
    """Returns True if a prompt ends inside a thought that it opened, so that the model's text continues it."""
    is_open, behind = False, 0
    for match in _TAG.finditer(prompt):
        tag = match[0]
        if tag == THINK:
            line = prompt[max(behind, prompt.rfind("\n", behind, match.start()) + 1) : match.start()]
            is_open = is_open or not line.strip()
        elif tag not in (MARK, THINK_ASKED):
            is_open = tag == OPEN
        behind = match.end()
    return is_open


def end_of_thought(encode: Callable[[str], Sequence[int]], piece: Callable[[int], str]) -> int | None:
    """Returns the token that ends a thought; None if there is none.

    encode: text to tokens. piece: token to text.
    """
    for tag in (THINK_END, CLOSE):
        ids = encode(tag)
        if [piece(token) for token in ids] == [tag]:
            return ids[0]
    return None


def closed_thought(prompt: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Returns a prompt's token ids with an empty thought at the end, so that the model answers at once.

    Unchanged if the tokenizer has no such tags, or if they end so already.
    """
    if tokenizer.token_id(OPEN) is None or tokenizer.token_id(CLOSE) is None:
        return list(prompt)
    thought = tokenizer.encode(f"{OPEN}{THOUGHT}\n{CLOSE}")
    return [*prompt, *(() if list(prompt[-len(thought) :]) == thought else thought)]


class TagSplitter:
    """Cuts arriving text at its tags; a possible beginning of one waits for the next piece."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> Iterator[tuple[str, bool]]:
        """Yields texts and tags in order; the second value is True for a tag."""
        parts = _TAG.split(self._held + piece)
        self._held = beginning(parts[-1])
        parts[-1] = parts[-1].removesuffix(self._held)
        for place, part in enumerate(parts):
            if part:
                yield part, place % 2 == 1

    def finish(self) -> str:
        """Returns the text that still waits, unless it is a tag that was cut in the middle."""
        held, self._held = self._held, ""
        return held if len(held) < CUT_SHORT else ""
