"""Computes the right answer to a question from the texts only, and the content that decides it.

Independent of ``facts``, which draws the examples, so that each checks the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.tasks.decisions.questions import Question, YesNo

_WEEK = {name: place for place, name in enumerate(("Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun"))}
_WORKDAYS = 5
_NUMERALS = {name: value for value, name in enumerate(("one", "two", "three", "four"), start=1)}
_COMES = re.compile(r"(\w+) comes on (\w+)day")
_NUMBER = re.compile(r"The number is (\d+)")
_LIST = re.compile(r"The list is ([^.]+)\.")


@dataclass(frozen=True)
class Known:
    """The facts that a state gives."""

    comes: dict[str, int]  # person's name -> day of the week, counted from Monday
    number: int | None
    listed: list[str]

    @staticmethod
    def from_state(state: str) -> Known:
        number, listed = _NUMBER.search(state), _LIST.search(state)
        return Known(
            {name: _WEEK[day] for name, day in _COMES.findall(state) if day in _WEEK},
            int(number[1]) if number else None,
            listed[1].split(", ") if listed else [],
        )


@dataclass(frozen=True)
class Solved:
    """A question's answer, an index of its options, and its content: what decides it, whatever the wording."""

    answer: int
    content: str


Parts = dict[str, str]
Rule = Callable[[Known, Parts, Sequence[str]], tuple[str | bool, Sequence[object]] | None]
"""Takes the known facts, the parts of the question and its options; returns the right option and what it depends on."""


def solve(state: str, question: Question) -> Solved | None:
    """Returns the right answer to a question about a state.

    Returns None if the question is not one of these tasks, or the state does not answer it."""
    known = Known.from_state(state)
    names = [option.name for option in question.options]
    for name, (rule, pattern) in _RULES.items():
        match = pattern.fullmatch(question.instructions)
        if match is None:
            continue
        try:
            found = rule(known, match.groupdict(), names)
        except (KeyError, IndexError, TypeError, ValueError):  # a name or a day that the state does not have
            return None
        if found is None:
            return None
        right, about = found
        if isinstance(question, YesNo) != isinstance(right, bool):
            return None
        label = ("yes" if right else "no") if isinstance(right, bool) else right
        if label not in names:
            return None
        return Solved(names.index(label), "|".join([name, *map(str, about)]))
    return None


def _number_than(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    gap = _number(known) - int(parts["n"])
    return (gap > 0 if parts["way"] == "larger" else gap < 0), (parts["way"], known.number, parts["n"])


def _is_even(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    value = _number(known)
    return (str(value)[-1] in "02468") == (parts["way"] == "even"), (value,)


def _in_range(known: Known, _parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]] | None:
    value = _number(known)
    for option in options:
        low, high = option.split(" to ")
        if int(low) <= value <= int(high):
            return option, (value, len(options))
    return None


def _comes_order(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    gap = known.comes[parts["a"]] - _WEEK[parts["day"]]
    return (gap < 0 if parts["way"] == "before" else gap > 0), (*parts.values(), known.comes[parts["a"]])


def _even_or_odd(known: Known, _parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    return ("even" if str(_number(known))[-1] in "02468" else "odd"), (known.number, *options)


def _number_compared(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    gap = _number(known) - int(parts["n"])
    return ("equal" if gap == 0 else "larger" if gap > 0 else "smaller"), (known.number, parts["n"], *options)


def _part_of_week(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    day = known.comes[parts["a"]]
    return ("weekend" if day >= _WORKDAYS else "workday"), (parts["a"], day, *options)


def _at_weekend(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    return known.comes[parts["a"]] >= _WORKDAYS, (parts["a"], known.comes[parts["a"]])


def _is_listed(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]] | None:
    return (parts["a"] in known.listed, (parts["a"], *known.listed)) if known.listed else None


def _length(known: Known, _parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    return list(_NUMERALS)[len(known.listed) - 1], (*known.listed, len(options))


def _number(known: Known) -> int:
    if known.number is None:
        raise KeyError("the number")
    return known.number


_A, _N = r"(?P<a>\w+)", r"(?P<n>\d+)"
_PATTERNS: tuple[tuple[str, Rule, str], ...] = (  # the content's key: the rule and its wording
    ("number than", _number_than, rf"Is the number (?P<way>larger|smaller) than {_N}"),
    ("parity", _is_even, r"Is the number (?P<way>even|odd)"),
    ("even or odd", _even_or_odd, r"Is the number even or odd"),
    ("number compared", _number_compared, rf"Compared with {_N}, how is the number"),
    ("range", _in_range, r"How large is the number"),
    ("order", _comes_order, rf"Does {_A} come (?P<way>before|after) (?P<day>\w+)day"),
    ("weekend", _at_weekend, rf"Does {_A} come at the weekend"),
    ("part", _part_of_week, rf"When does {_A} come"),
    ("member", _is_listed, rf"Is {_A} in the list"),
    ("length", _length, r"How many (?:digit|letter)s are in the list"),
)
_RULES = {name: (rule, re.compile(rf"{pattern}\?", re.ASCII)) for name, rule, pattern in _PATTERNS}
