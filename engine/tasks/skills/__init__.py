"""Small text tasks with answers that a program can check: the list of skills and their common functions.

The tasks train and evaluate a tiny character-level block-diffusion language model. One sixteenth of all tasks is held
out of training. The split is by content, not by wording: two phrasings of one task are always in the same split. Small
talk has fixed answers and is in both.

To add a skill, write it in a file of its family and name it in ``SKILLS``, at the end.
"""

from __future__ import annotations

import random
from typing import Literal

from engine.tasks.skills import arithmetic, counting, measures, number_words, small_talk, words
from engine.tasks.skills.skill import (
    MAX_ANSWER,
    MAX_PROMPT,
    AnswerRule,
    Example,
    Parts,
    Skill,
    is_held_out_content,
    plain,
)
from engine.tasks.skills.vocabulary import WORDS

__all__ = [
    "MAX_ANSWER",
    "MAX_PROMPT",
    "SKILLS",
    "SMALL_TALK",
    "WORDS",
    "Example",
    "Split",
    "check",
    "examples",
    "is_held_out",
    "parse",
    "sample",
    "solve",
    "suggestions",
]

Split = Literal["train", "test"]

SMALL_TALK = small_talk.NAME
"""The key of the one skill with memorised answers."""

SKILLS: dict[str, Skill] = {
    skill.name: skill
    for skill in (  # the order determines what a seed draws, and which rule is tried first
        words.REVERSE_WORD,
        words.SORT_LETTERS,
        arithmetic.SORT_NUMBERS,
        arithmetic.ADD,
        arithmetic.SUBTRACT,
        words.COUNT_LETTERS,
        number_words.NUMBER_TO_WORDS,
        number_words.WORDS_TO_NUMBER,
        measures.WEEKDAY,
        measures.CONVERT,
        arithmetic.PATTERN,
        words.JSON_LIST,
        arithmetic.FILL_GAP,
        words.CAPITALS,
        words.SPELL,
        words.REPEAT,
        counting.COUNT_UP,
        counting.COUNTDOWN,
        counting.TIMES_TABLE,
        small_talk.SMALL_TALK,
    )
}
"""All skills by their key."""

_MAX_TRIES = 100_000

_EXAMPLES: tuple[str, ...] = (
    "Times table of 8 up to 10.",
    "What can you do?",
    "Count from 4 to 43.",
    "Count down from 51 to 20.",
    "What is diffusion?",
    "Fill in: Leo had 9 eggs, won 6, now has _.",
    "Write 436 in words.",
    "As JSON: fig, pear, plum",
    "Write cabin 2 times.",
    "Spell banana.",
    "Sort 9 4 7 2 6.",
    "Continue 25 30 35 40",
    "Mia comes 3 days after Tuesday. When?",
    "Convert 36 km to m.",
    "Reverse the word robot.",
    "Sort the letters of jewel.",
    "Write owl in capitals.",
    "Write sixty-four in digits.",
    "How many letters are in potato?",
    "What is 47 + 5?",
    "What is 93 - 2?",
)
"""One or two examples of each skill. The first ones show the most steps and lines, as measured in real runs."""
_SUGGESTED = 8


def parse(prompt: str) -> tuple[str, AnswerRule, Parts] | None:
    """Returns the skill whose rule matches a prompt, the rule, and the matched parts; None for small talk and other
    text."""
    text = plain(prompt)
    for skill in SKILLS.values():
        if skill.rule is None:
            continue
        for pattern in skill.rule.patterns:
            match = pattern.fullmatch(text)
            if match:
                return skill.name, skill.rule, match.groupdict(default=skill.rule.missing)
    return None


def solve(prompt: str) -> str | None:
    """Returns the right answer to a prompt, computed from its text; None if it is not one of these tasks.

    Upper and lower case of the wording, spaces around the prompt and a missing full stop at its end do not matter.
    """
    fixed = small_talk.ANSWERS.get(plain(prompt).lower())
    if fixed is not None:
        return fixed
    parsed = parse(prompt)
    if parsed is None:
        return None
    _, rule, parts = parsed
    answer = rule.answer(parts)
    return answer if answer is not None and len(answer) <= MAX_ANSWER else None


def check(prompt: str, answer: str) -> bool:
    """True if an answer, apart from surrounding spaces, is the right one."""
    return answer.strip() == solve(prompt)


def is_held_out(prompt: str) -> bool:
    """True if a task is kept for the test split, by a stable hash of what it asks; small talk never is."""
    key = plain(prompt)
    if key.lower() in small_talk.ANSWERS:
        return False
    parsed = parse(prompt)
    if parsed is not None:
        name, _, parts = parsed
        key = "|".join([name, *(f"{part}={parts[part]}" for part in sorted(parts))])
    return is_held_out_content(key.lower())


def sample(rng: random.Random, split: Split, skill: str | None = None) -> Example:
    """Draws an example of a split, of the given skill or of one drawn by weight."""
    if skill is None:
        chosen = rng.choices(list(SKILLS.values()), weights=[s.weight for s in SKILLS.values()])[0]
    else:
        chosen = SKILLS[skill]
    for _ in range(_MAX_TRIES):
        example = chosen.generate(rng)
        if chosen.name == SMALL_TALK or is_held_out(example.prompt) == (split == "test"):
            return example
    raise RuntimeError(f"no example of {chosen.name} for the {split} split")


def suggestions() -> list[str]:
    """Returns prompts to suggest to users, those with the most visible steps first."""
    return list(_EXAMPLES[:_SUGGESTED])


def examples() -> list[str]:
    """Returns a prompt or two of each skill, in the order of ``suggestions``. Except for small talk, none was in
    training."""
    return list(_EXAMPLES)
