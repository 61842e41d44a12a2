"""Tasks on numbers: sums, differences, orders, patterns, and a sentence with a gap."""

from __future__ import annotations

import random
from itertools import pairwise

from engine.tasks.skills.skill import Example, Parts, Skill, ask, rule
from engine.tasks.skills.vocabulary import PEOPLE

_THINGS = ("pens", "cups", "hats", "books", "coins", "keys", "nuts", "eggs", "plums", "figs")
_GAINS = ("got", "found", "won")
_LOSSES = ("lost", "sold", "ate")


def _sort_numbers(rng: random.Random) -> Example:
    numbers = rng.sample(range(1, 10), rng.randint(4, 6))
    given, answer = (" ".join(map(str, row)) for row in (numbers, sorted(numbers)))
    return ask(rng, "sort_numbers", ("Sort {n}.",), answer, n=given)


def _solve_sorted_numbers(parts: Parts) -> str:
    return " ".join(sorted(parts["n"].split(), key=int))


def _add(rng: random.Random) -> Example:
    a, b = rng.randint(10, 99), rng.randint(1, 9)
    return ask(rng, "add", ("What is {a} + {b}?",), str(a + b), a=a, b=b)


def _subtract(rng: random.Random) -> Example:
    a, b = rng.randint(10, 99), rng.randint(1, 9)
    return ask(rng, "subtract", ("What is {a} - {b}?",), str(a - b), a=a, b=b)


def _solve_difference(parts: Parts) -> str | None:
    difference = int(parts["a"]) - int(parts["b"])
    return str(difference) if difference >= 0 else None


def _pattern(rng: random.Random) -> Example:
    start, step = rng.randint(1, 50), rng.choice((1, 2, 5, 10))
    row = [str(start + i * step) for i in range(7)]
    return ask(rng, "pattern", ("Continue {n}",), " ".join(row[4:]), n=" ".join(row[:4]))


def _solve_pattern(parts: Parts) -> str | None:
    row = [int(number) for number in parts["n"].split()]
    steps = {after - before for before, after in pairwise(row)}
    if len(steps) != 1:
        return None
    step = steps.pop()
    following = [row[-1] + step, row[-1] + 2 * step, row[-1] + 3 * step]
    return " ".join(map(str, following)) if min(following) >= 0 else None


def _fill_gap(rng: random.Random) -> Example:
    name, things = rng.choice(PEOPLE), rng.choice(_THINGS)
    if rng.random() < 0.5:
        had, change, verb = rng.randint(2, 10), rng.randint(1, 9), rng.choice(_GAINS)
        left = had + change
    else:
        had, verb = rng.randint(4, 12), rng.choice(_LOSSES)
        change = rng.randint(1, min(9, had - 2))
        left = had - change
    sentence = f"{name} had {had} {things}, {verb} {change}, now has {{}}."
    return Example("fill_gap", "Fill in: " + sentence.format("_"), sentence.format(left))


def _solve_gap(parts: Parts) -> str | None:
    change = int(parts["b"]) if parts["verb"].lower() in _GAINS else -int(parts["b"])
    left = int(parts["a"]) + change
    return f"{parts['start']}{left}." if left >= 0 else None


SORT_NUMBERS = Skill(
    "sort_numbers",
    "Sort numbers",
    _sort_numbers,
    0.75,
    rule(r"sort (?:the numbers )?(?P<n>\d{1,6}(?: \d{1,6})+)", answer=_solve_sorted_numbers, wording="Sort {n}."),
)
ADD = Skill(
    "add",
    "Add two numbers",
    _add,
    0.75,
    rule(
        r"(?:what is )?(?P<a>\d{1,6}) ?\+ ?(?P<b>\d{1,6})(?: ?=)?",
        r"add (?P<a>\d{1,6}) and (?P<b>\d{1,6})",
        answer=lambda p: str(int(p["a"]) + int(p["b"])),
        wording="What is {a} + {b}?",
    ),
)
SUBTRACT = Skill(
    "subtract",
    "Subtract two numbers",
    _subtract,
    0.75,
    rule(
        r"(?:what is )?(?P<a>\d{1,6}) ?- ?(?P<b>\d{1,6})(?: ?=)?",
        r"take (?P<b>\d{1,6}) from (?P<a>\d{1,6})",
        answer=_solve_difference,
        wording="What is {a} - {b}?",
    ),
)
PATTERN = Skill(
    "pattern",
    "Continue a pattern",
    _pattern,
    3,
    rule(
        r"(?:continue|what comes after) (?P<n>\d{1,6}(?: \d{1,6}){2,5})",
        answer=_solve_pattern,
        wording="Continue {n}",
    ),
)
FILL_GAP = Skill(
    "fill_gap",
    "Fill the gap in a sentence",
    _fill_gap,
    2,
    rule(
        rf"fill in: ?(?P<start>[a-z]+ had (?P<a>\d{{1,4}}) [a-z]+, (?P<verb>{'|'.join(_GAINS + _LOSSES)}) "
        rf"(?P<b>\d{{1,4}}), now has )_",
        answer=_solve_gap,
        wording=lambda p: f"Fill in: {p['start'].capitalize()}_.",
    ),
)
