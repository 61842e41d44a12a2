"""Facts that a state is made of, and questions about them with their right answers, drawn at random.

``rules`` answers the same questions from the texts alone; neither knows the other, so that each checks the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.tasks.decisions.questions import OneOf, Option, Question, Score, YesNo
from engine.tasks.skills.vocabulary import PEOPLE, made_up_word, short_words

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
THINGS = ("coins", "eggs", "books", "cards", "pens")
COUNTS = ("one", "two", "three", "four", "five")
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
    """Who has how many of a thing: two people, sometimes one."""
    people = rng.sample(PEOPLE, 2 if rng.random() < 0.8 else 1)
    counts = [rng.randint(0, LARGEST) for _ in people]
    near = rng.random()
    if len(people) > 1 and near < 0.15:
        counts[1] = counts[0]
    elif len(people) > 1 and near < 0.45:  # the same tens, which the ones decide
        counts[1] = counts[0] // 10 * 10 + rng.randint(0, 9)
    thing = rng.choice(THINGS)
    first, *rest = zip(people, counts, strict=True)
    text = f"{first[0]} has {first[1]} {thing}."
    for person, count in rest:
        text += f" {person} has {count}."
    has = dict(zip(people, counts, strict=True))

    def pair(rng: random.Random) -> tuple[str, str]:
        one, other = rng.sample(people, 2)
        return one, other

    def than_person(rng: random.Random) -> Asked:
        one, other = pair(rng)
        more = rng.random() < 0.5
        said = _one(rng, "Does {} have {} than {}?", "Has {} got {} than {}?")
        right = has[one] > has[other] if more else has[one] < has[other]
        return _yes_no("comparison", said.format(one, "more" if more else "fewer", other), right)

    def than_number(rng: random.Random) -> Asked:
        one = rng.choice(people)
        limit, more = _limit(rng, has[one]), rng.random() < 0.5
        said = _one(rng, "Does {} have {} than {}?", "Has {} got {} than {}?")
        right = has[one] > limit if more else has[one] < limit
        return _yes_no("comparison", said.format(one, "more" if more else "fewer", limit), right)

    def who(rng: random.Random) -> Asked:
        most = rng.random() < 0.5
        right = (max if most else min)(people, key=has.__getitem__)
        if list(has.values()).count(has[right]) > 1:
            return than_person(rng)
        return _one_of(rng, "comparison", "Who has more?" if most else "Who has fewer?", right, people)

    def even(rng: random.Random) -> Asked:
        one = rng.choice(people)
        return _parity(rng, f"{one}'s number", has[one])

    def level(rng: random.Random) -> Asked:
        one = rng.choice(people)
        said = _one(rng, "How many does {} have?", "How large is {}'s number?").format(one)
        return _range(rng, "size", said, has[one])

    both = (than_person, who) if len(people) > 1 else ()
    return StateFact(text, (*both, than_number, even, level))


def number(rng: random.Random) -> StateFact:
    """One number."""
    value = rng.randint(0, LARGEST)

    def even(rng: random.Random) -> Asked:
        return _parity(rng, "the number", value)

    def even_or_odd(rng: random.Random) -> Asked:
        said = _one(rng, "Is the number even or odd?", "What is the number?")
        return _one_of(rng, "parity", said, "odd" if value % 2 else "even", ["even", "odd"])

    def than(rng: random.Random) -> Asked:
        limit, larger = _limit(rng, value), rng.random() < 0.5
        said = f"Is the number {'larger' if larger else 'smaller'} than {limit}?"
        return _yes_no("comparison", said, value > limit if larger else value < limit)

    def compared(rng: random.Random) -> Asked:
        limit = value if rng.random() < 0.25 else _limit(rng, value)
        right = "larger" if value > limit else "smaller" if value < limit else "equal"
        said = _one(rng, "How is the number, compared with {}?", "Compared with {}, how is the number?")
        return _one_of(rng, "comparison", said.format(limit), right, ["larger", "smaller", "equal"])

    def level(rng: random.Random) -> Asked:
        return _range(rng, "size", _one(rng, "How large is the number?", "Where is the number?"), value)

    return StateFact(f"The number is {value}.", (even, even_or_odd, than, compared, level))


# --- days of the week ----------------------------------------------------------------------------------------------


def visits(rng: random.Random) -> StateFact:
    """Who comes on which day of the week, which begins on Monday: one or two people."""
    people = rng.sample(PEOPLE, 1 if rng.random() < 0.6 else 2)
    days = dict(zip(people, rng.sample(range(7), len(people)), strict=True))
    text = " ".join(f"{person} comes on {DAYS[day]}." for person, day in days.items())

    def order(rng: random.Random) -> Asked:
        one, other, before = rng.choice(people), rng.randrange(7), rng.random() < 0.5
        said = _one(rng, "Does {} come {} {}?", "Will {} be there {} {}?")
        right = days[one] < other if before else days[one] > other
        return _yes_no("weekday", said.format(one, "before" if before else "after", DAYS[other]), right)

    def weekend(rng: random.Random) -> Asked:
        one = rng.choice(people)
        said = _one(rng, "Does {} come at the weekend?", "Will {} be there at the weekend?")
        return _yes_no("weekday", said.format(one), days[one] > 4)

    def beside(rng: random.Random) -> Asked:
        one, after = rng.choice(people), rng.random() < 0.5
        right = DAYS[(days[one] + (1 if after else -1)) % 7]
        others = [day for day in DAYS if day != right]
        said = _one(rng, "Which day is {} {} comes?", "What day is it {} {} comes?")
        text = said.format("the day after" if after else "the day before", one)
        return _one_of(rng, "weekday", text, right, [right, *rng.sample(others, rng.randint(1, 4))])

    def first(rng: random.Random) -> Asked:
        if len(people) < 2:
            return on(rng)
        early = rng.random() < 0.5
        right = (min if early else max)(people, key=days.__getitem__)
        return _one_of(rng, "weekday", "Who comes first?" if early else "Who comes last?", right, people)

    def on(rng: random.Random) -> Asked:
        one = rng.choice(people)
        right = DAYS[days[one]]
        others = [day for day in DAYS if day != right]
        said = _one(rng, "When does {} come?", "Which day does {} come?").format(one)
        return _one_of(rng, "weekday", said, right, [right, *rng.sample(others, rng.randint(1, 4))])

    def part(rng: random.Random) -> Asked:
        one = rng.choice(people)
        said = _one(rng, "How late in the week does {} come?", "Which part of the week is it when {} comes?")
        levels = ("Monday to Wednesday", "Thursday or Friday", "weekend")
        return Asked("weekday", Score(said.format(one), _options(levels)), (days[one] > 2) + (days[one] > 4))

    return StateFact(text, (order, order, weekend, beside, first, part))


# --- lists ---------------------------------------------------------------------------------------------------------


def listing(rng: random.Random) -> StateFact:
    """A list of words, or of numbers."""
    count, in_numbers = rng.randint(2, MOST_WORDS), rng.random() < 0.25
    if in_numbers:
        spare = [str(value) for value in rng.sample(range(LARGEST + 1), count + 5)]
    elif rng.random() < 0.8:
        spare = short_words(rng, count + 5)
    else:
        spare = list(dict.fromkeys(made_up_word(rng) for _ in range(30)))[: count + 5]
    words, others = spare[:count], spare[count:]
    thing = "number" if in_numbers else "word"

    def member(rng: random.Random) -> Asked:
        inside = rng.random() < 0.5
        said = _one(rng, "Is {} in the list?", "Does the list have {}?")
        return _yes_no("membership", said.format(rng.choice(words if inside else others)), inside)

    def which(rng: random.Random) -> Asked:
        right = rng.choice(words)
        said = f"Which {thing} is in the list?"
        return _one_of(rng, "membership", said, right, [right, *rng.sample(others, rng.randint(1, 4))])

    def end(rng: random.Random) -> Asked:
        first = rng.random() < 0.5
        right = words[0] if first else words[-1]
        said = f"Which {thing} is {'first' if first else 'last'} in the list?"
        wrong = [word for word in words if word != right]
        return _one_of(rng, "membership", said, right, [right, *rng.sample(wrong, min(len(wrong), rng.randint(1, 3)))])

    def length(rng: random.Random) -> Asked:
        said = _one(rng, "How many {}s are in the list?", "How many {}s does the list have?").format(thing)
        levels = COUNTS[: rng.randint(max(2, count), MOST_WORDS)]
        return Asked("membership", Score(said, _options(levels)), count - 1)

    return StateFact(f"The list is {', '.join(words)}.", (member, member, which, end, length))


FACTS: tuple[Callable[[random.Random], StateFact], ...] = (holdings, number, visits, listing)
"""Every kind of fact; a state has one of each at most."""


# --- common to all -------------------------------------------------------------------------------------------------


def _one(rng: random.Random, *phrasings: str) -> str:
    """A phrasing, mostly the first."""
    return phrasings[0] if rng.random() < 0.7 else rng.choice(phrasings[1:])


def _limit(rng: random.Random, value: int) -> int:
    """A number to compare with, often near."""
    if rng.random() < 0.4:
        return min(max(0, value + rng.choice((-1, 1)) * rng.randint(1, 9)), LARGEST)
    return rng.randint(0, LARGEST)


def _parity(rng: random.Random, of: str, value: int) -> Asked:
    even = rng.random() < 0.5
    return _yes_no("parity", f"Is {of} {'even' if even else 'odd'}?", (value % 2 == 0) == even)


def _range(rng: random.Random, family: str, said: str, value: int) -> Asked:
    """In which half or quarter of 0 to 99 a number is."""
    size = rng.choice((50, 25, 25))
    levels = [f"{start} to {start + size - 1}" for start in range(0, LARGEST + 1, size)]
    return Asked(family, Score(said, _options(levels)), value // size)


def _yes_no(family: str, said: str, right: bool) -> Asked:
    return Asked(family, YesNo(said), 0 if right else 1)


def _one_of(rng: random.Random, family: str, said: str, right: str, options: Sequence[str]) -> Asked:
    shuffled = rng.sample(list(options), len(options))
    return Asked(family, OneOf(said, _options(shuffled)), shuffled.index(right))


def _options(names: Sequence[str]) -> tuple[Option, ...]:
    return tuple(Option(name) for name in names)
