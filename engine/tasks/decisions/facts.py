"""Facts that a state is made of, and questions about them with their right answers, drawn at random.

``rules`` answers the same questions from the texts alone; neither knows the other, so that each checks the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.tasks.decisions.questions import OneOf, Option, Question, Score, YesNo
from engine.tasks.skills.vocabulary import PEOPLE, short_words

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
THINGS = ("coins", "eggs", "books", "cards", "pens")
COUNTS = ("one", "two", "three", "four")
QUARTER = 25
MOST_WORDS = len(COUNTS)  # in a list
LARGEST = 99  # number of things, or in a list


@dataclass(frozen=True)
class Asked:
    """A question with the index of its right option; ``family`` is what it is about."""

    family: str
    question: Question
    answer: int


@dataclass(frozen=True)
class StateFact:
    """A sentence or two of a state, and what can be asked about it: each draws one question."""

    text: str
    questions: tuple[Callable[[random.Random], Asked], ...]


# --- numbers of things ---------------------------------------------------------------------------------------------


def holdings(rng: random.Random) -> StateFact:
    """Which of two people has how many of a thing, never as many."""
    people, counts = rng.sample(PEOPLE, 2), rng.sample(range(LARGEST + 1), 2)
    if rng.random() < 0.3:  # the same tens, so that the ones decide
        tens = counts[0] // 10 * 10
        counts = [tens + one for one in rng.sample(range(10), 2)]
    text = f"{people[0]} has {counts[0]} {rng.choice(THINGS)}. {people[1]} has {counts[1]}."

    def who(rng: random.Random) -> Asked:
        most = rng.random() < 0.5
        right = people[counts.index((max if most else min)(counts))]
        return _one_of(rng, "comparison", "Who has more?" if most else "Who has fewer?", right, people)

    return StateFact(text, (who,))


def number(rng: random.Random) -> StateFact:
    """One number."""
    value = rng.randint(0, LARGEST)

    def even(rng: random.Random) -> Asked:
        wanted = rng.random() < 0.5
        return _yes_no("parity", f"Is the number {'even' if wanted else 'odd'}?", (value % 2 == 0) == wanted)

    def than(rng: random.Random) -> Asked:
        limit, larger = _limit(rng, value), rng.random() < 0.5
        said = f"Is the number {'larger' if larger else 'smaller'} than {limit}?"
        return _yes_no("comparison", said, value > limit if larger else value < limit)

    def level(rng: random.Random) -> Asked:  # noqa: ARG001
        levels = [f"{low} to {low + QUARTER - 1}" for low in range(0, LARGEST + 1, QUARTER)]
        return Asked("comparison", Score("How large is the number?", _options(levels)), value // QUARTER)

    return StateFact(f"The number is {value}.", (even, than, level))


# --- days of the week ----------------------------------------------------------------------------------------------


def visits(rng: random.Random) -> StateFact:
    """Who comes on which day of the week, which begins on Monday."""
    person, day = rng.choice(PEOPLE), rng.randrange(len(DAYS))

    def order(rng: random.Random) -> Asked:
        other, before = rng.randrange(len(DAYS)), rng.random() < 0.5
        said = f"Does {person} come {'before' if before else 'after'} {DAYS[other]}?"
        return _yes_no("weekday", said, day < other if before else day > other)

    def weekend(rng: random.Random) -> Asked:  # noqa: ARG001
        return _yes_no("weekday", f"Does {person} come at the weekend?", day > 4)

    return StateFact(f"{person} comes on {DAYS[day]}.", (order, order, weekend))


# --- lists ---------------------------------------------------------------------------------------------------------


def listing(rng: random.Random) -> StateFact:
    """A list of words."""
    count = rng.randint(2, MOST_WORDS)
    spare = short_words(rng, count + 3)
    words, others = spare[:count], spare[count:]

    def member(rng: random.Random) -> Asked:
        inside = rng.random() < 0.5
        return _yes_no("membership", f"Is {rng.choice(words if inside else others)} in the list?", inside)

    def which(rng: random.Random) -> Asked:
        right = rng.choice(words)
        wrong = rng.sample(others, rng.randint(1, 2))
        return _one_of(rng, "membership", "Which word is in the list?", right, [right, *wrong])

    def length(rng: random.Random) -> Asked:  # noqa: ARG001
        return Asked("membership", Score("How many words are in the list?", _options(COUNTS)), count - 1)

    return StateFact(f"The list is {', '.join(words)}.", (member, member, which, length))


FACTS: tuple[Callable[[random.Random], StateFact], ...] = (holdings, number, visits, listing)
"""Every kind of fact; a state has one of each at most."""


# --- common to all -------------------------------------------------------------------------------------------------


def _limit(rng: random.Random, value: int) -> int:
    """A number to compare with, often near."""
    if rng.random() < 0.4:
        return min(max(0, value + rng.choice((-1, 1)) * rng.randint(1, 9)), LARGEST)
    return rng.randint(0, LARGEST)


def _yes_no(family: str, said: str, right: bool) -> Asked:
    return Asked(family, YesNo(said), 0 if right else 1)


def _one_of(rng: random.Random, family: str, said: str, right: str, options: Sequence[str]) -> Asked:
    shuffled = rng.sample(list(options), len(options))
    return Asked(family, OneOf(said, _options(shuffled)), shuffled.index(right))


def _options(names: Sequence[str]) -> tuple[Option, ...]:
    return tuple(Option(name) for name in names)
