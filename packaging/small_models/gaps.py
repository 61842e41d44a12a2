"""Texts with a gap that what stands around it determines: numbers, lines of tables, brackets, words of known phrases.

One text in sixteen is held out of training, by its content; phrases and calendars are few and are in both splits. The
answer is the piece that was taken out, so no second program computes it: each maker takes out what has one filling.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from small_models.skills import is_held_out_content, random_word

MAX_TEXT = 62  # characters of a text
Split: TypeAlias = Literal["train", "test"]

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
PHRASES = (
    "Actions speak louder than words.",
    "All that glitters is not gold.",
    "A picture is worth a thousand words.",
    "Better late than never.",
    "Birds of a feather flock together.",
    "Don't count your chickens before they hatch.",
    "Every cloud has a silver lining.",
    "Good things come to those who wait.",
    "Honesty is the best policy.",
    "Look before you leap.",
    "Many hands make light work.",
    "No news is good news.",
    "Practice makes perfect.",
    "Rome was not built in a day.",
    "Slow and steady wins the race.",
    "The early bird catches the worm.",
    "The pen is mightier than the sword.",
    "Time and tide wait for no man.",
    "Too many cooks spoil the broth.",
    "Two heads are better than one.",
    "When in Rome, do as the Romans do.",
    "You can't judge a book by its cover.",
    "Where there is smoke, there is fire.",
    "Strike while the iron is hot.",
    "The sky is blue.",
    "The grass is green.",
    "The snow is white.",
    "The sun is warm.",
    "Ice is cold.",
    "Sugar is sweet.",
    "Lemons are sour.",
    "A week has seven days.",
    "A year has twelve months.",
    "An hour has sixty minutes.",
    "A spider has eight legs.",
    "The earth goes around the sun.",
    "Bees make honey.",
    "Cows give milk.",
    "Fish live in water.",
    "Birds can fly.",
    "Once upon a time there was a king.",
    "Happy birthday to you.",
    "To be or not to be, that is the question.",
    "Roses are red, violets are blue.",
    "Bread and butter.",
    "Salt and pepper.",
    "An apple a day keeps the doctor away.",
    "Curiosity killed the cat.",
    "Paris is the capital of France.",
    "Rome is the capital of Italy.",
)


@dataclass(frozen=True)
class GapExample:
    """A text without one piece. ``kind`` is the name of its maker."""

    kind: str
    prefix: str
    answer: str
    suffix: str

    @property
    def text(self) -> str:
        """The whole text."""
        return self.prefix + self.answer + self.suffix


def _without(kind: str, pieces: Sequence[str], separator: str, place: int) -> GapExample:
    """Takes one of the pieces out of the text that they make."""
    before = "".join(piece + separator for piece in pieces[:place])
    behind = "".join(separator + piece for piece in pieces[place + 1 :])
    return GapExample(kind, before, pieces[place], behind)


def _series(rng: random.Random) -> GapExample:
    step = rng.choice([*range(1, 13), *range(-9, 0)])
    count = rng.randint(5, 8)
    start = rng.randint(0, 60) + max(0, -step * (count - 1))
    terms = [str(start + step * place) for place in range(count)]
    return _without("series", terms, rng.choice((" ", ", ")), rng.randint(1, count - 2))


def _table(rng: random.Random) -> GapExample:
    factor, first, count = rng.randint(2, 12), rng.randint(1, 7), rng.randint(4, 5)
    lines = [f"{factor} x {row} = {factor * row}" for row in range(first, first + count)]
    return _without("table", lines, "\n", rng.randint(1, count - 2))


def _sum(rng: random.Random) -> GapExample:
    left, right = rng.randint(0, 60), rng.randint(0, 39)
    pieces = [str(left), "+", str(right), "=", str(left + right)]
    return _without("sum", pieces, " ", rng.choice((0, 2, 4)))


def _brackets(rng: random.Random) -> GapExample:
    kinds = [rng.choice(("()", "[]", "{}")) for _ in range(rng.randint(2, 5))]
    letters = rng.sample("abcdefghijklmnopqrstuvwxyz", 2 * len(kinds) + 1)
    opening = "".join(letters[place] + kind[0] for place, kind in enumerate(kinds)) + letters[-1]
    closing = [kind[1] + letters[len(kinds) + place] for place, kind in enumerate(reversed(kinds))]
    place = rng.randrange(len(closing))
    before, behind = opening + "".join(closing[:place]), "".join(closing[place + 1 :])
    return GapExample("brackets", before, closing[place][0], closing[place][1] + behind)


def _capitals(rng: random.Random) -> GapExample:
    words = [random_word(rng) for _ in range(rng.randint(3, 4))]
    pieces = [piece for word in words for piece in (word, word.upper())]
    return _without("capitals", pieces, " ", rng.randrange(len(pieces)))


def _calendar(rng: random.Random) -> GapExample:
    names = rng.choice((DAYS, MONTHS))
    first, count = rng.randrange(len(names)), rng.randint(3, 5)
    pieces = [names[(first + place) % len(names)] for place in range(count)]
    return _without("calendar", pieces, ", ", rng.randint(1, count - 2))


def _phrase(rng: random.Random) -> GapExample:
    words = rng.choice(PHRASES).rstrip(".").split(" ")
    long = [place for place, word in enumerate(words) if len(word) > 2]
    gap = _without("phrase", words, " ", rng.choice(long))
    return replace(gap, suffix=gap.suffix + ".")


KINDS: dict[str, tuple[Callable[[random.Random], GapExample], int]] = {
    "series": (_series, 3),
    "table": (_table, 2),
    "sum": (_sum, 2),
    "brackets": (_brackets, 2),
    "capitals": (_capitals, 1),
    "calendar": (_calendar, 1),
    "phrase": (_phrase, 1),
}
"""The makers of texts with a gap, and how often each is drawn, by the name of what they make."""


def sample(rng: random.Random, split: Split, weights: Mapping[str, int] | None = None) -> GapExample:
    """Draws a gap of a split, of a kind drawn by the given weights or by those of ``KINDS``."""
    often = weights or {name: weight for name, (_, weight) in KINDS.items()}
    [name] = rng.choices(list(often), weights=list(often.values()))
    while True:
        gap = KINDS[name][0](rng)
        if len(gap.text) > MAX_TEXT:
            continue
        if name in ("phrase", "calendar") or is_held_out_content(gap.text) == (split == "test"):
            return gap
