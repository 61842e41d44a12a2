"""A skill: a generator of examples, and a rule that computes the answer to a prompt from its text.

The two are independent, so that each checks the other.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_PROMPT = 72
"""The maximum length of a prompt, in characters."""

MAX_ANSWER = 190
"""The maximum length of an answer, in characters."""

HELD_OUT_ONE_IN = 16
"""One task in this many is kept for the test split."""

Parts = dict[str, str]
"""The named groups that a rule's pattern reads from a prompt."""


@dataclass(frozen=True)
class Example:
    """One prompt with its answer."""

    skill: str
    prompt: str
    answer: str


@dataclass(frozen=True)
class AnswerRule:
    """Parses and answers one kind of prompt; ``missing`` holds defaults of parts that a prompt omits."""

    patterns: tuple[re.Pattern[str], ...]
    answer: Callable[[Parts], str | None]
    wording: Callable[[Parts], str]  # writes the prompt as the generator does
    missing: str = ""


@dataclass(frozen=True)
class Skill:
    """A kind of task: its key, its display name, its generator, its share in training and its rule.

    Small talk alone has no rule; its answers are fixed.
    """

    name: str
    title: str
    generate: Callable[[random.Random], Example]
    weight: float = 1.0
    rule: AnswerRule | None = None


def rule(
    *patterns: str, answer: Callable[[Parts], str | None], wording: str | Callable[[Parts], str], missing: str = ""
) -> AnswerRule:
    """Returns a rule for prompts that fully match one of the patterns, in upper or lower case.

    Args:
        answer: computes the right answer from the parts; None if there is none.
        wording: the usual phrasing of the generator, with the parts in braces; or a function that writes it.
    """
    found = tuple(re.compile(pattern, re.IGNORECASE | re.ASCII) for pattern in patterns)
    return AnswerRule(found, answer, wording.format_map if isinstance(wording, str) else wording, missing)


def ask(rng: random.Random, skill: str, phrasings: Sequence[str], answer: str, **parts: object) -> Example:
    """Returns an example in a random phrasing; the first is as likely as all others together."""
    phrasing = phrasings[0] if len(phrasings) == 1 or rng.random() < 0.5 else rng.choice(phrasings[1:])
    return Example(skill, phrasing.format(**parts), answer)


def is_held_out_content(content: str) -> bool:
    """Returns True if a task is kept for the test split, by a stable hash of what it asks."""
    # Not a CRC: it is linear, and would hold out whole columns, such as every countdown to 5.
    return hashlib.blake2b(content.encode(), digest_size=1).digest()[0] % HELD_OUT_ONE_IN == 0


def plain(prompt: str) -> str:
    """Returns the prompt with single spaces and without the full stop at its end."""
    return " ".join(prompt.split()).rstrip(" .?!")
