"""Tasks on days of the week and on units."""

from __future__ import annotations

import random

from engine.tasks.skills.skill import Example, Parts, Skill, ask, rule
from engine.tasks.skills.vocabulary import PEOPLE

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY = "|".join(_DAYS)

_UNITS: tuple[tuple[str, str, int, int, int], ...] = (
    # the larger unit, the smaller unit, their ratio, the least and the greatest number of larger ones
    ("km", "m", 1000, 1, 99),
    ("m", "cm", 100, 1, 99),
    ("kg", "g", 1000, 1, 99),
    ("l", "ml", 1000, 1, 99),
    ("cm", "mm", 10, 1, 99),
    ("t", "kg", 1000, 1, 99),
)


def _weekday(rng: random.Random) -> Example:
    start, days, after = rng.randrange(7), rng.randint(1, 6), rng.random() < 0.5
    answer = _DAYS[(start + (days if after else -days)) % 7]
    span = f"{days} day{'' if days == 1 else 's'}"
    return ask(
        rng,
        "weekday",
        ("{name} comes {span} {order} {day}. When?",),
        answer,
        name=rng.choice(PEOPLE),
        span=span,
        order="after" if after else "before",
        day=_DAYS[start],
    )


def _solve_weekday(parts: Parts) -> str:
    days = [day.lower() for day in _DAYS]
    if parts["way"].lower() == "before":
        days.reverse()
    found = days[(days.index(parts["day"].lower()) + int(parts["n"])) % 7]
    return found.capitalize()


def _word_weekday(parts: Parts) -> str:
    name, days = parts.get("name", PEOPLE[0]).capitalize(), "day" if parts["n"] == "1" else "days"
    return f"{name} comes {parts['n']} {days} {parts['way'].lower()} {parts['day'].capitalize()}. When?"


def _convert(rng: random.Random) -> Example:
    large, small, factor, least, most = rng.choice(_UNITS)
    value = rng.randint(least, most)
    one, other = (value, large), (value * factor, small)
    if rng.random() < 0.25:
        one, other = other, one
    return ask(rng, "convert", ("Convert {n} {a} to {b}.",), f"{other[0]} {other[1]}", n=one[0], a=one[1], b=other[1])


def _solve_conversion(parts: Parts) -> str | None:
    value, source, target = int(parts["n"]), parts["a"].lower(), parts["b"].lower()
    for large, small, factor, _, _ in _UNITS:
        if (source, target) == (large, small):
            return f"{value * factor} {small}"
        if (source, target) == (small, large) and value % factor == 0:
            return f"{value // factor} {large}"
    return None


WEEKDAY = Skill(
    "weekday",
    "Find the day of the week",
    _weekday,
    0.75,
    rule(  # the group names are part of the hash that decides the split
        rf"(?P<name>[a-z]+) comes (?P<n>\d{{1,4}}) days? (?P<way>after|before) (?P<day>{_DAY})\. when",
        rf"(?:what|which) day is (?P<n>\d{{1,4}}) days? (?P<way>after|before) (?P<day>{_DAY})",
        answer=_solve_weekday,
        wording=_word_weekday,
    ),
)
CONVERT = Skill(
    "convert",
    "Convert units",
    _convert,
    0.75,
    rule(
        r"convert (?P<n>\d{1,6}) (?P<a>[a-z]+) to (?P<b>[a-z]+)",
        r"what is (?P<n>\d{1,6}) (?P<a>[a-z]+) in (?P<b>[a-z]+)",
        answer=_solve_conversion,
        wording=lambda p: f"Convert {p['n']} {p['a'].lower()} to {p['b'].lower()}.",
    ),
)
