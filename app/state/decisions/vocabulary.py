"""The words that the small decider was trained on. Knows neither Qt nor a model."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from functools import cache

from app.state.decisions.sheet import QuestionSheet
from engine.tasks.decisions import facts

DRAWS = 60  # of each kind of fact, which give all of its words


def unknown_words(text: str, sheet: QuestionSheet) -> list[str]:
    """Returns the words of two letters and more, of a text and its questions, that occur in no training example."""
    asked = (part for draft in sheet.questions for part in (draft.instructions, *(one.name for one in draft.options)))
    known = _known()
    return [word for word in dict.fromkeys(_words((text, *asked))) if word not in known]


@cache
def _known() -> frozenset[str]:
    rng = random.Random(0)
    drawn = [make(rng) for make in facts.FACTS for _ in range(DRAWS)]
    questions = [ask(rng).question for fact in drawn for ask in fact.questions]
    asked = (part for one in questions for part in (one.instructions, *(option.name for option in one.options)))
    return frozenset(_words((*(fact.text for fact in drawn), *asked)))


def _words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in re.findall(r"[^\W\d_]{2,}", text.lower())]
