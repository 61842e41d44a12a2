"""Tasks on days of the week and on units."""

from __future__ import annotations

from engine.tasks.skills.skill import Parts, rule
from engine.tasks.skills.vocabulary import PEOPLE

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY = "|".join(DAYS)

UNITS = (  # the larger unit, the smaller unit, their ratio
    ("km", "m", 1000),
    ("m", "cm", 100),
    ("kg", "g", 1000),
    ("l", "ml", 1000),
    ("cm", "mm", 10),
    ("t", "kg", 1000),
)


def _solve_weekday(parts: Parts) -> str:
    days = [day.lower() for day in DAYS]
    if parts["way"].lower() == "before":
        days.reverse()
    weekday = days[(days.index(parts["day"].lower()) + int(parts["n"])) % 7]
    return weekday.capitalize()


def _word_weekday(parts: Parts) -> str:
    name, days = parts.get("name", PEOPLE[0]).capitalize(), "day" if parts["n"] == "1" else "days"
    return f"{name} comes {parts['n']} {days} {parts['way'].lower()} {parts['day'].capitalize()}. When?"


def _solve_conversion(parts: Parts) -> str | None:
    value, source, target = int(parts["n"]), parts["a"].lower(), parts["b"].lower()
    for large, small, factor in UNITS:
        if (source, target) == (large, small):
            return f"{value * factor} {small}"
        if (source, target) == (small, large) and value % factor == 0:
            return f"{value // factor} {large}"
    return None


WEEKDAY = rule(  # the group names are part of the hash that decides the split
    rf"(?P<name>[a-z]+) comes (?P<n>\d{{1,4}}) days? (?P<way>after|before) (?P<day>{_DAY})\. when",
    rf"(?:what|which) day is (?P<n>\d{{1,4}}) days? (?P<way>after|before) (?P<day>{_DAY})",
    answer=_solve_weekday,
    wording=_word_weekday,
)
CONVERT = rule(
    r"convert (?P<n>\d{1,6}) (?P<a>[a-z]+) to (?P<b>[a-z]+)",
    r"what is (?P<n>\d{1,6}) (?P<a>[a-z]+) in (?P<b>[a-z]+)",
    answer=_solve_conversion,
    wording=lambda p: f"Convert {p['n']} {p['a'].lower()} to {p['b'].lower()}.",
)
