"""Splits an answer's tokens into text and thinking. Knows no network.

Thinking is between the tokens that open and close a channel named "thought". Source: the released checkpoint's
chat template.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engine.text.tokenizer import Tokenizer

OPEN, CLOSE = "<|channel>", "<channel|>"
THOUGHT = "thought"


class Reply(NamedTuple):
    """An answer for display."""

    text: str
    thinking: str = ""


def read_reply(tokenizer: Tokenizer, ids: Iterable[int]) -> Reply:
    """Split an answer's tokens. The content of a channel that is still open is thinking."""
    opening, closing = tokenizer.token_id(OPEN), tokenizer.token_id(CLOSE)
    text: list[int] = []
    thinking: list[int] = []
    inside = False
    for token in (int(token) for token in ids):
        if token == opening:
            inside = True
        elif token == closing:
            inside = False
        else:
            (thinking if inside else text).append(token)
    thought = tokenizer.decode(thinking).removeprefix(THOUGHT).strip() if thinking else ""
    return Reply(tokenizer.decode(text), thought)
