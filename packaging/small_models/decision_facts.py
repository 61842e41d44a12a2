"""Facts of a state, and questions about them with their right answers, drawn at random.

``rules`` answers the same questions from the texts only. Neither module uses the other, so that each checks the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from engine.tasks.decisions.questions import OneOf, Option, Question, Score, YesNo
from engine.tasks.decisions.wording import DIGITS
from engine.tasks.skills.vocabulary import PEOPLE

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
COUNTS = ("one", "two", "three", "four")
QUARTER = 25
QUARTERS = ("0 to 24", "25 to 49", "50 to 74", "75 to 99")
WORKDAYS = 5
LARGEST = 99


@dataclass(frozen=True)
class Asked:
    """A question with the index of its right option; ``family`` is its topic."""

    family: str
    question: Question
    answer: int


@dataclass(frozen=True)
class StateFact:
    """A sentence or two of a state, and functions that each draw a question about it."""

    text: str
    questions: tuple[Callable[[random.Random], Asked], ...]


def number(rng: random.Random) -> StateFact:
    """Draws a fact about one number."""
    value = rng.randint(0, LARGEST)

    def is_even(rng: random.Random) -> Asked:
        wanted = rng.random() < 0.5
        return _yes_no("parity", f"Is the number {'even' if wanted else 'odd'}?", (value % 2 == 0) == wanted)

    def even_or_odd(rng: random.Random) -> Asked:
        return _one_of(rng, "parity", "Is the number even or odd?", "odd" if value % 2 else "even", ("even", "odd"))

    def is_larger(rng: random.Random) -> Asked:
        limit, larger = _limit(rng, value), rng.random() < 0.5
        said = f"Is the number {'larger' if larger else 'smaller'} than {limit}?"
        return _yes_no("comparison", said, value > limit if larger else value < limit)

    def larger_or_smaller(rng: random.Random) -> Asked:
        limit = _limit(rng, value)
        right = "larger" if value > limit else "smaller" if value < limit else "equal"
        said = f"Compared with {limit}, how is the number?"
        return _one_of(rng, "comparison", said, right, ("larger", "smaller", "equal"))

    def size(rng: random.Random) -> Asked:  # noqa: ARG001
        return Asked("comparison", Score("How large is the number?", options(QUARTERS)), value // QUARTER)

    return StateFact(f"The number is {value}.", (is_even, even_or_odd, is_larger, larger_or_smaller, size))


def visit(rng: random.Random) -> StateFact:
    """Draws a fact about the days of the week, from Monday on, on which people come."""
    person, day = rng.choice(PEOPLE), rng.randrange(len(DAYS))

    def order(rng: random.Random) -> Asked:
        other, before = rng.randrange(len(DAYS)), rng.random() < 0.5
        said = f"Does {person} come {'before' if before else 'after'} {DAYS[other]}?"
        return _yes_no("weekday", said, day < other if before else day > other)

    def at_weekend(rng: random.Random) -> Asked:  # noqa: ARG001
        return _yes_no("weekday", f"Does {person} come at the weekend?", day >= WORKDAYS)

    def part(rng: random.Random) -> Asked:
        right = "weekend" if day >= WORKDAYS else "workday"
        return _one_of(rng, "weekday", f"When does {person} come?", right, ("workday", "weekend"))

    return StateFact(f"{person} comes on {DAYS[day]}.", (order, order, at_weekend, part))


def listing(rng: random.Random) -> StateFact:
    """Draws a fact about a list of different letters or digits."""
    signs, thing = rng.choice(((DIGITS, "digit"), (ascii_lowercase, "letter")))
    count = rng.randint(1, len(COUNTS))
    inside, outside = rng.sample(signs, count), rng.choice(signs)

    def has(rng: random.Random) -> Asked:
        sign = rng.choice(inside) if rng.random() < 0.5 else outside
        return _yes_no("membership", f"Is {sign} in the list?", sign in inside)

    def length(rng: random.Random) -> Asked:  # noqa: ARG001
        return Asked("membership", Score(f"How many {thing}s are in the list?", options(COUNTS)), count - 1)

    return StateFact(f"The list is {', '.join(inside)}.", (has, has, length))


FACTS: tuple[Callable[[random.Random], StateFact], ...] = (number, visit, listing)
"""Every kind of fact; a state has at most one of each."""


def _limit(rng: random.Random, value: int) -> int:
    """Draws a number to compare with, often a near one."""
    if rng.random() < 0.4:
        return min(max(0, value + rng.choice((-1, 1)) * rng.randint(1, 9)), LARGEST)
    return rng.randint(0, LARGEST)


def _yes_no(family: str, said: str, right: bool) -> Asked:
    return Asked(family, YesNo(said), 0 if right else 1)


def _one_of(rng: random.Random, family: str, said: str, right: str, names: Sequence[str]) -> Asked:
    shuffled = rng.sample(list(names), len(names))
    return Asked(family, OneOf(said, options(shuffled)), shuffled.index(right))


def options(names: Iterable[str]) -> tuple[Option, ...]:
    return tuple(Option(name) for name in names)
