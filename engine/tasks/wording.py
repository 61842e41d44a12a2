"""Brings a prompt to the wording that the small models were trained on, and says what of it they were not taught."""

from __future__ import annotations

import functools
import re
from collections import Counter

from engine.tasks import skills, tool_questions
from engine.tasks.skills.arithmetic import GAINS, LOSSES, THINGS
from engine.tasks.skills.measures import DAYS
from engine.tasks.skills.number_words import SMALL, TENS
from engine.tasks.skills.skill import plain
from engine.tasks.skills.small_talk import PHRASINGS, TALK
from engine.tasks.skills.vocabulary import PEOPLE, WORDS

WORDINGS = {
    "reverse_word": "reverse the word",
    "sort_letters": "sort the letters of",
    "sort_numbers": "sort",
    "add": "what is",
    "subtract": "what is",
    "count_letters": "how many letters are in count the",
    "number_to_words": "write say in words",
    "words_to_number": "write say in digits hundred",
    "weekday": "comes day days after before when",
    "convert": "convert to km m cm kg g l ml mm t",
    "pattern": "continue",
    "json_list": "as json",
    "fill_gap": "fill in had now has",
    "capitals": "write in capitals",
    "spell": "spell",
    "repeat": "write times",
    "count_up": "count up from to",
    "countdown": "count down countdown from to",
    "times_table": "times table of up to",
}
"""The words that all prompts of a skill share."""
STEM = 4  # letters that two forms of a word share
_COURTESY = re.compile(
    r"\A(?:(?:hi|hello|hey)\b[,!]? +(?=\w))?(?:(?:please|kindly|(?:can|could|would|will) you(?: please)?),? +)*"
    r"|,? +please(?=[ .?!]*\Z)",
    re.IGNORECASE,
)
_WHATS = re.compile(r"\Awhat['\u2019]?s\b", re.IGNORECASE)
_UNQUOTED = str.maketrans("", "", '"“”„«»')


def is_taught(prompt: str) -> bool:
    """True if a prompt is a task of the skills."""
    return skills.solve(normal(prompt)) is not None


def simple(prompt: str) -> str:
    """Returns a prompt without words of courtesy at its ends, and with "what's" written out."""
    text = _COURTESY.sub("", prompt.strip())
    return _WHATS.sub("what is", text)


def as_taught(prompt: str) -> str:
    """Returns a task of the skills, or a question for a tool, in the wording of the training texts; others as they
    are."""
    text = simple(prompt)
    is_for_tool_alone = tool_questions.tool_for(text) and not is_taught(text)
    return tool_questions.normal(text) if is_for_tool_alone else normal(prompt)


def normal(prompt: str) -> str:
    """Returns a task of the skills in the very wording of the training texts; other prompts as they are.

    Case, spaces, quotation marks and the mark at the end do not matter. A word that the task is about keeps its case,
    unless all is in capitals.
    """
    text = simple(prompt).translate(_UNQUOTED)
    if text.isupper():
        text = text.lower()
    talked = PHRASINGS.get(plain(text).lower())
    parsed = skills.parse(text)
    if talked is not None:
        return talked
    if parsed is None or skills.solve(text) is None:
        return prompt
    _, rule, parts = parsed
    return rule.wording(parts)


def unknown_words(prompt: str) -> list[str]:
    """Returns the words of a prompt that occur nowhere in the tasks, each once, in order."""
    known = _vocabulary()
    return [word for word in dict.fromkeys(_words(prompt)) if word not in known]


def nearest(prompt: str, count: int = 3) -> list[str]:
    """Returns prompts from training: of the prompt's skill, then those that share the rarest words with it, then
    others."""
    asked = set(_words(prompt))
    stems = {word[:STEM] for word in asked if len(word) >= STEM}
    own = _skill(prompt)
    wordings, spread = _wordings(), _spread()

    def likeness(words: frozenset[str]) -> float:
        return sum(1 / spread[word] for word in words if word in asked or (len(word) >= STEM and word[:STEM] in stems))

    alike = {example: likeness(words) for example, words in wordings.items()}
    ranked = sorted(alike, key=alike.__getitem__, reverse=True)
    like = [example for example in ranked if example != prompt and alike[example]]
    of_skill = [example for example in skills.examples() if own and example != prompt and _skill(example) == own]
    return list(dict.fromkeys([*of_skill, *like, *skills.suggestions()]))[:count]


def _skill(prompt: str) -> str:
    """Returns the key of the skill that a prompt is a task of; empty for small talk and other text."""
    parsed = skills.parse(prompt)
    return "" if parsed is None else parsed[0]


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text.lower())


@functools.cache
def _vocabulary() -> frozenset[str]:
    asked = (*WORDINGS.values(), *PEOPLE, *THINGS, *GAINS, *LOSSES, *DAYS, *SMALL, *TENS)
    talked = (phrasing for phrasings, _ in TALK for phrasing in phrasings)
    return frozenset(word for text in (*asked, *talked, *WORDS) for word in _words(text))


@functools.cache
def _wordings() -> dict[str, frozenset[str]]:
    """Returns the words of each example's wording: of its skill, or of the phrasing in small talk."""
    found = {phrasing: frozenset(_words(phrasing)) for phrasings, _ in TALK for phrasing in phrasings}
    return found | {one: frozenset(WORDINGS[_skill(one)].split()) for one in skills.examples() if _skill(one)}


@functools.cache
def _spread() -> Counter[str]:
    """Counts the wordings that have each word."""
    return Counter(word for words in _wordings().values() for word in words)
