"""The words that the small decider was trained on. Knows neither Qt nor a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from app.state.decisions.drafts import QuestionDraft

_TRAINED = """
    after anna are at before ben come comes compared digits does equal eva even four friday how in is large larger leo
    letters lily list many max mia monday no number odd on one or sam saturday smaller sunday than the three thursday to
    tom tuesday two wednesday weekend when with workday yes zoe
"""
KNOWN = frozenset(_TRAINED.split())
"""All words of two letters and more that it was trained on."""


def unknown_words(text: str, drafts: Sequence[QuestionDraft]) -> list[str]:
    """Returns the words of two letters and more, of a text and its questions, that occur in no training example."""
    asked = (part for draft in drafts for part in (draft.instructions, *(one.name for one in draft.options)))
    return [word for word in dict.fromkeys(_words((text, *asked))) if word not in KNOWN]


def _words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in re.findall(r"[^\W\d_]{2,}", text.lower())]
