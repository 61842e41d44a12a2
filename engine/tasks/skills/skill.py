"""What a skill is: a generator of examples, and a rule that answers a prompt from its text alone.

Neither side uses the other, so each checks the other.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_PROMPT = 72
"""The most characters a prompt has."""

MAX_ANSWER = 190
"""The most characters an answer has."""

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
    """How to read one kind of prompt and answer it; ``missing`` stands for the parts a prompt leaves out."""

    patterns: tuple[re.Pattern[str], ...]
    answer: Callable[[Parts], str | None]
    missing: str = ""


@dataclass(frozen=True)
class Skill:
    """A kind of task: its key, its name for people, its generator, its share in training and its rule.

    Small talk alone has no rule; its answers are fixed.
    """

    name: str
    title: str
    generate: Callable[[random.Random], Example]
    weight: float = 1.0
    rule: AnswerRule | None = None


def rule(*patterns: str, answer: Callable[[Parts], str | None], missing: str = "") -> AnswerRule:
    """A rule for prompts that fully match one of the patterns, in upper or lower case.

    Args:
        answer: the right answer from the parts; None where there is none.
    """
    return AnswerRule(tuple(re.compile(pattern, re.IGNORECASE | re.ASCII) for pattern in patterns), answer, missing)


def ask(rng: random.Random, skill: str, phrasings: Sequence[str], answer: str, **parts: object) -> Example:
    """An example in one of the phrasings; the first is as likely as all others together."""
    phrasing = phrasings[0] if len(phrasings) == 1 or rng.random() < 0.5 else rng.choice(phrasings[1:])
    return Example(skill, phrasing.format(**parts), answer)


def plain(prompt: str) -> str:
    """The prompt with single spaces and without the stop at its end."""
    return " ".join(prompt.split()).rstrip(" .?!")
