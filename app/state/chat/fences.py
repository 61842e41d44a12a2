"""Texts as blocks of code in Markdown. Imports nothing, so that a process of its own begins at once."""

from __future__ import annotations

import re

SHORTEST_FENCE = 3


def fence_for(text: str) -> str:
    """Returns the backticks that open and close a code block around a text: one more than any run of them in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(SHORTEST_FENCE, longest + 1)


def fenced(text: str, language: str = "") -> str:
    """Returns a text as a block of code."""
    fence = fence_for(text)
    return f"{fence}{language}\n{text}\n{fence}"
