"""Converts an answer's tokens to the displayed text and thinking. Knows no network."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from engine.text.output import OutputParser
from engine.text.output_parts import ContentPart, ThoughtPart, ToolCallPart, joined
from engine.text.tags import (
    CALL,
    CALL_END,
    CLOSE,
    JSON_CALL,
    JSON_CALL_END,
    MARK,
    OPEN,
    THINK,
    THINK_END,
)

if TYPE_CHECKING:
    from engine.text.tokenizer import Tokenizer

_IN_LETTERS = re.compile(r"\A\s*thought\n|</?think>|<tool_call>")  # a thought or a call in letters


class Reply(NamedTuple):
    """An answer for display. A call of a tool is a line of its text."""

    text: str
    thinking: str = ""


def read_reply(tokenizer: Tokenizer, ids: Iterable[int]) -> Reply:
    """Splits an answer's tokens. The content of a thought that is still open is thinking.

    Only the tokens of thoughts and calls count among special tokens: an answer's end is known before. A thought that
    the prompt opened is recognised by the token that ends it, and is text until then.
    """
    tokens = [int(token) for token in ids]
    tags = {tokenizer.token_id(tag) for tag in (OPEN, CLOSE, CALL, CALL_END, MARK, JSON_CALL, JSON_CALL_END)}
    if tags.isdisjoint(tokens):
        written = tokenizer.decode(tokens)
        if not _IN_LETTERS.search(written):  # true of most answers, which are read at each repaint
            return Reply(written)
    else:
        kept = [token for token in tokens if token in tags or not tokenizer.is_special(token)]
        written = tokenizer.decode(kept, skip_special=False)
    begin, end = tokenizer.token_id(THINK), tokenizer.token_id(THINK_END)
    in_thought = next((token == end for token in tokens if token in (begin, end)), False)
    parser = OutputParser(starts_in_thought=in_thought, any_tool=True)
    text: list[str] = []
    thinking: list[str] = []
    for part in joined([*parser.feed(written), *parser.finish()]):
        match part:
            case ContentPart(piece):
                text.append(piece)
            case ThoughtPart(piece):
                thinking.append(piece)
            case ToolCallPart(_, name, arguments, is_cut):
                gap = "\n" if text and not text[-1].endswith("\n") else ""
                text.append(f"{gap}call {name}({arguments}{'…' if is_cut else ''})\n")
    return Reply("".join(text), "".join(thinking))
