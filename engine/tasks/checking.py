"""Checks what a model wrote freely to a sum, or to numbers or words to sort: a right answer has the result in it."""

from __future__ import annotations

import re

from engine.errors import SafelightError
from engine.tasks import wording
from engine.tasks.skills.skill import plain
from engine.tools.example_tools import calculate

MAX_PROMPT_CHARACTERS = 200  # characters of a prompt that is checked
_SUM = re.compile(r"(?:(?:what is|how much is|calculate|compute|solve):? )?([-(\d][-\d .()+*/]*[\d)])(?: ?=)?")
_SIGNS = (
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\b(?:times|multiplied by)\b|[\u00d7\u00b7]|(?<=\d) ?x ?(?=\d)", "*"),
    (r"\bdivided by\b|\u00f7", "/"),
    (r"(?<=\d),(?=\d{3}\b)", ""),
)
_SORT = re.compile(
    r"(?:sort|alphabetize)\b(?: (?:these|the|the following|this list of))?(?: (words|names|numbers))?(:?) (.+)"
)
_ITEM = re.compile(r"[^\W\d_][\w'-]*|-?\d+(?:\.\d+)?")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")


def missing(prompt: str, answer: str) -> str:
    """Returns the result that belongs into an answer and is not in it; empty if it is there, or no program knows it."""
    right = _sum(prompt) or _sorted(prompt)
    expected = [item.casefold() for item in right]
    answer = re.sub(r"(?<=\d),(?=\d{3}\b)", "", answer)
    items = [item for item in map(str.casefold, _ITEM.findall(answer)) if item in expected]
    is_there = any(items[place : place + len(expected)] == expected for place in range(len(items)))
    return "" if is_there else (" " if expected and expected[0].lstrip("-").isdigit() else ", ").join(right)


def _sum(prompt: str) -> list[str]:
    """Returns the value of a prompt's expression; nothing if it is none."""
    text = _bare(wording.normal(prompt))
    for pattern, sign in _SIGNS:
        text = re.sub(pattern, sign, text)
    match = _SUM.fullmatch(" ".join(text.split()))
    if match is None or _DATE.fullmatch(match[1]) or not re.search(r"\d ?\)* ?[-+*/]", match[1]):
        return []
    try:
        return [calculate(match[1])]
    except SafelightError:
        return []


def _sorted(prompt: str) -> list[str]:
    """Returns the items that a prompt wants to be sorted, in order; nothing if it wants something else."""
    match = _SORT.fullmatch(_bare(wording.normal(prompt)))
    if match is None:
        return []
    kind, colon, listed = match.groups()
    original = plain(wording.simple(prompt))[-len(listed) :]  # with its capital letters
    between = r",? and |, ?" if re.search(r",| and ", listed) else r"\s+"
    items = re.split(between, original if original.lower() == listed else listed)
    is_numbers = all(re.fullmatch(r"-?\d+", item) for item in items)
    is_list = is_numbers or (bool(colon or kind) and all(map(_ITEM.fullmatch, items)))
    if not is_list or len(items) < 2:
        return []
    return sorted(items, key=int) if is_numbers else sorted(items, key=str.casefold)


def _bare(prompt: str) -> str:
    """Returns a prompt in small letters, without courtesy and the mark at its end; empty if it is too long."""
    return plain(wording.simple(prompt)).lower() if len(prompt) <= MAX_PROMPT_CHARACTERS else ""
