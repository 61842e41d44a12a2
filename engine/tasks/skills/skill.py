"""The rule of a skill: it reads a prompt, computes the answer, and writes the usual wording."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_ANSWER = 190
"""The maximum length of an answer, in characters."""

Parts = dict[str, str]
"""The named groups that a rule's pattern reads from a prompt."""


@dataclass(frozen=True)
class AnswerRule:
    """Parses and answers one kind of prompt; ``missing`` holds defaults of parts that a prompt omits."""

    patterns: tuple[re.Pattern[str], ...]
    answer: Callable[[Parts], str | None]
    wording: Callable[[Parts], str]  # writes the prompt as training has it
    missing: str = ""


def rule(
    *patterns: str, answer: Callable[[Parts], str | None], wording: str | Callable[[Parts], str], missing: str = ""
) -> AnswerRule:
    """Returns a rule for prompts that fully match one of the patterns, in upper or lower case.

    Args:
        answer: computes the right answer from the parts; None if there is none.
        wording: the usual phrasing, with the parts in braces; or a function that writes it.
    """
    compiled = tuple(re.compile(pattern, re.IGNORECASE | re.ASCII) for pattern in patterns)
    return AnswerRule(compiled, answer, wording.format_map if isinstance(wording, str) else wording, missing)


def plain(prompt: str) -> str:
    """Returns the prompt with single spaces and without the full stop at its end."""
    return " ".join(prompt.split()).rstrip(" .?!")
