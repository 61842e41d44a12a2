"""The wordings of questions that a small model answers with the example tools."""

from __future__ import annotations

import re

from engine.tasks.skills.skill import plain
from engine.tools.example_tools import COLUMNS

MAX_QUESTION = 64  # characters
NO_TOOL = "I have no tool for that."

_EXPRESSION = r"[-(\d][\d ()+*/-]*[+*/-][\d ()+*/-]*"
_PATTERNS = {
    "calculate": (
        rf"(?:what is|calculate|how much is) {_EXPRESSION}|{_EXPRESSION} ?=",
        r"(?:what is|how much is) \d+ (?:plus|minus|times|divided by) \d+",
        r"(?:add \d+ and|(?:multiply|divide) \d+ by|take \d+ from) \d+",
        r"\d+ boxes hold \d+ \w+ each\. how many in all|\d+ people share \d+ \w+\. how many for each",
        r"\w+ has \d+ \w+ and (?:gets|sells) \d+\. how many now",
    ),
    "clock": (
        r"(?:what time|how late|what day|which day) is it(?: in .+)?|what day is today|tell me the (?:time|day) in .+",
    ),
    "count_words": (r"(?:how many words(?: has)?|count the words): .+",),
    "look_up": (
        rf"(?:what is|look up|tell me|find) the (?:{'|'.join(COLUMNS)}) of .+",
        rf".+: which (?:{'|'.join(COLUMNS)})",
    ),
}
_QUESTIONS = {kind: re.compile("|".join(parts), re.IGNORECASE | re.ASCII) for kind, parts in _PATTERNS.items()}
_ORDERS = ("Calculate", "Add", "Multiply", "Divide", "Take", "Tell", "Look", "Find")  # words that begin no question


def tool_for(prompt: str) -> str:
    """Returns the tool that a question is for, if it has a wording of the training texts; empty if it is none."""
    text = plain(prompt)
    if len(text) > MAX_QUESTION:
        return ""
    return next((kind for kind, pattern in _QUESTIONS.items() if pattern.fullmatch(text)), "")


def normal(prompt: str) -> str:
    """Returns a question for a tool with the signs of the training texts; other prompts as they are.

    Spaces around operators, the mark at the end, and capital letters of names do not matter.
    """
    kind, text = tool_for(prompt), plain(prompt)
    if not kind:
        return prompt
    if kind == "calculate":
        text = re.sub(r"(?<=[\d)])\s*([-+*/])\s*(?=[\d(-])", r" \1 ", text)
    elif kind != "count_words":
        name = re.compile(r"(?<= in | of ).+|^.+(?=: )")
        text = name.sub(lambda match: match[0].title() if match[0].islower() else match[0], text)
    text = text[:1].upper() + text[1:]
    if kind == "count_words":
        return text
    if text.endswith("="):
        return f"{text[:-1].rstrip()} = ?"
    return text + ("." if text.split()[0] in _ORDERS else "?")
