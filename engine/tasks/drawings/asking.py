"""The wordings of questions about drawings."""

from __future__ import annotations

import re

from engine.tasks.drawings.scene import COLOURS, SHAPES
from engine.tasks.skills.skill import plain

_S, _C = rf"(?P<shape>{'|'.join(SHAPES)})", rf"(?P<colour>{'|'.join(COLOURS)})"
_ANY = rf"(?P<shape>shape|{'|'.join(SHAPES)})"
PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE | re.ASCII))
    for kind, pattern in (
        ("count", rf"how many {_ANY}s are there"),
        ("count", rf"count the {_ANY}s"),
        ("count of a colour", rf"how many {_C} shapes are there"),
        ("count of a colour", rf"how many shapes are {_C}"),
        ("colour", rf"(?:what|which) colou?r is the (?P<shape>number|{'|'.join(SHAPES)})"),
        ("shape", rf"(?:what|which) shape is {_C}"),
        ("side", rf"what is (?P<side>left of|right of|above|below) the {_S}"),
        ("presence", rf"is there a {_C} {_S}"),
        ("number", r"(?:which|what) number is (?:written|this)"),
    )
)
"""The wordings of each kind."""


def is_question(text: str) -> bool:
    """Returns True if a text is one of the questions, about whatever scene."""
    return any(pattern.fullmatch(plain(text)) for _, pattern in PATTERNS)
