"""Small text tasks with answers that a program can check: the rules of the skills, and examples of them.

To add a skill, write its rule in a file of its family and name it in ``RULES``; teach it in ``packaging/small_models``.
"""

from __future__ import annotations

from engine.tasks.skills import arithmetic, measures, number_words, small_talk, words
from engine.tasks.skills.skill import MAX_ANSWER, AnswerRule, Parts, plain

RULES: dict[str, AnswerRule] = {  # the order determines which rule is tried first
    "reverse_word": words.REVERSE_WORD,
    "sort_letters": words.SORT_LETTERS,
    "sort_numbers": arithmetic.SORT_NUMBERS,
    "add": arithmetic.ADD,
    "subtract": arithmetic.SUBTRACT,
    "count_letters": words.COUNT_LETTERS,
    "number_to_words": number_words.NUMBER_TO_WORDS,
    "words_to_number": number_words.WORDS_TO_NUMBER,
    "weekday": measures.WEEKDAY,
    "convert": measures.CONVERT,
    "pattern": arithmetic.PATTERN,
    "json_list": words.JSON_LIST,
    "fill_gap": arithmetic.FILL_GAP,
    "capitals": words.CAPITALS,
    "spell": words.SPELL,
    "repeat": words.REPEAT,
    "count_up": arithmetic.COUNT_UP,
    "countdown": arithmetic.COUNTDOWN,
    "times_table": arithmetic.TIMES_TABLE,
}
"""The rules of all skills by their key; small talk has fixed answers."""

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
    for name, rule in RULES.items():
        for pattern in rule.patterns:
            match = pattern.fullmatch(text)
            if match:
                return name, rule, match.groupdict(default=rule.missing)
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


def suggestions() -> list[str]:
    """Returns prompts to suggest to users, those with the most visible steps first."""
    return list(_EXAMPLES[:_SUGGESTED])


def examples() -> list[str]:
    """Returns a prompt or two of each skill, in the order of ``suggestions``. Except for small talk, none was in
    training."""
    return list(_EXAMPLES)
