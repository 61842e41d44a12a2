"""Brings a prompt to the wording that the small models were trained on."""

from __future__ import annotations

import re
from collections.abc import Container

from engine.tasks import skills, tool_questions
from engine.tasks.skills.skill import plain
from engine.tasks.skills.small_talk import PHRASINGS

_COURTESY = re.compile(
    r"\A(?:(?:hi|hello|hey)\b[,!]? +(?=\w))?(?:(?:please|kindly|(?:can|could|would|will) you(?: please)?),? +)*"
    r"|,? +please(?=[ .?!]*\Z)",
    re.IGNORECASE,
)
_WHATS = re.compile(r"\Awhat['\u2019]?s\b", re.IGNORECASE)
_UNQUOTED = str.maketrans("", "", '"“”„«»')


def is_task(prompt: str, tools: Container[str] = ()) -> bool:
    """Returns True for a task of the skills, or a question for one of the tools."""
    text, task = simple(prompt), normal(prompt)
    return skills.solve(task) is not None or tool_questions.tool_for(text) in tools


def is_taught(prompt: str) -> bool:
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
    talked = PHRASINGS.get(plain(prompt).lower()) or PHRASINGS.get(plain(text).lower())
    parsed = skills.parse(text)
    if talked is not None:
        return talked
    if parsed is None or skills.solve(text) is None:
        return prompt
    _, rule, parts = parsed
    return rule.wording(parts)
