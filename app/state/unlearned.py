"""The sentence about words that occur in no training example of a small model."""

from __future__ import annotations

from collections.abc import Sequence

from app.system.i18n import tr, trn

MOST_WORDS = 4  # words that are named


def unlearned_line(words: Sequence[str]) -> str:
    """Returns a sentence that names words which the model does not know, at most four of them; empty for no words."""
    if not words:
        return ""
    named = ", ".join(f"“{word}”" for word in words[:MOST_WORDS])
    return trn(
        "This small model never learned the word {words}: it can only guess.",
        "This small model never learned the words {words}: it can only guess.",
        len(words),
        words=named if len(words) <= MOST_WORDS else tr("{words} and more", words=named),
    )
