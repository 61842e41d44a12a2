"""Reads the right answer to a question from the texts alone, and what the question is about.

Independent of what draws the examples (``facts``), so that each checks the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.tasks.decisions.questions import Question, YesNo

_WEEK = {name: place for place, name in enumerate(("Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun"))}
_WORKDAYS = 5
_NUMERALS = {name: value for value, name in enumerate(("one", "two", "three", "four", "five"), start=1)}
_HAS = re.compile(r"(\w+) has (\d+)")
_COMES = re.compile(r"(\w+) comes on (\w+)day")
_NUMBER = re.compile(r"The number is (\d+)")
_LIST = re.compile(r"The list is ([^.]+)\.")


@dataclass(frozen=True)
class Known:
    """What a state says."""

    has: dict[str, int]
    comes: dict[str, int]  # days from Monday on
    number: int | None
    listed: list[str]

    @staticmethod
    def of(state: str) -> Known:
        number, listed = _NUMBER.search(state), _LIST.search(state)
        return Known(
            {name: int(count) for name, count in _HAS.findall(state)},
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
"""From what is known, the parts of the question and its options to the right option, and what it depends on."""


def solve(state: str, question: Question) -> Solved | None:
    """The right answer to a question about a state; None if it is not one of these tasks, or the state does not say."""
    known = Known.of(state)
    names = [option.name for option in question.options]
    for name, (rule, patterns) in _RULES.items():
        match = next(filter(None, (pattern.fullmatch(question.instructions) for pattern in patterns)), None)
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


# --- a rule each ---------------------------------------------------------------------------------------------------


def _than_person(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    one, other = known.has[parts["a"]], known.has[parts["b"]]
    return (one - other > 0 if parts["way"] == "more" else other - one > 0), (parts["way"], one, other)


def _than_number(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    one, limit = known.has[parts["a"]], int(parts["n"])
    return (one - limit > 0 if parts["way"] == "more" else limit - one > 0), (parts["way"], one, limit)


def _who_has(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]] | None:
    ranked = sorted(options, key=lambda name: known.has[name], reverse=parts["way"] == "more")
    if known.has[ranked[0]] == known.has[ranked[1]]:
        return None
    return ranked[0], (parts["way"], *(known.has[name] for name in options))


def _number_than(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    gap = _number(known) - int(parts["n"])
    return (gap > 0 if parts["way"] == "larger" else gap < 0), (parts["way"], known.number, parts["n"])


def _number_compared(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    gap = _number(known) - int(parts["n"])
    return ("equal" if gap == 0 else "larger" if gap > 0 else "smaller"), (known.number, parts["n"], *options)


def _is_even(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    value = known.has[parts["a"]] if "a" in parts else _number(known)
    return (str(value)[-1] in "02468") == (parts["way"] == "even"), (value,)


def _even_or_odd(known: Known, _parts: Parts, _options: Sequence[str]) -> tuple[str, Sequence[object]]:
    return ("even" if str(_number(known))[-1] in "02468" else "odd"), (known.number,)


def _in_range(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]] | None:
    value = known.has[parts["a"]] if "a" in parts else _number(known)
    for option in options:
        low, high = option.split(" to ")
        if int(low) <= value <= int(high):
            return option, (value, len(options))
    return None


def _comes_order(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    gap = known.comes[parts["a"]] - _WEEK[parts["day"]]
    return (gap < 0 if parts["way"] == "before" else gap > 0), (parts["way"], known.comes[parts["a"]], parts["day"])


def _at_weekend(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]]:
    return known.comes[parts["a"]] >= _WORKDAYS, (parts["a"], known.comes[parts["a"]])


def _day_beside(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    way = parts.get("way", "on")
    shift = {"after": 1, "before": 6, "on": 0}[way]
    place = (known.comes[parts["a"]] + shift) % len(_WEEK)
    return f"{list(_WEEK)[place]}day", (way, place, *options)


def _who_comes(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]] | None:
    ranked = sorted(options, key=lambda name: known.comes[name], reverse=parts["way"] == "last")
    if known.comes[ranked[0]] == known.comes[ranked[1]]:
        return None
    return ranked[0], (parts["way"], *((name, known.comes[name]) for name in options))


def _part_of_week(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    day = known.comes[parts["a"]]
    early = "Monday to Wednesday" if day < 3 else "Thursday or Friday"
    return ("weekend" if day >= _WORKDAYS else early), (parts["a"], day, len(options))


def _is_listed(known: Known, parts: Parts, _options: Sequence[str]) -> tuple[bool, Sequence[object]] | None:
    return (parts["a"] in known.listed, (parts["a"], *known.listed)) if known.listed else None


def _which_listed(known: Known, _parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]] | None:
    found = [option for option in options if option in known.listed]
    return (found[0], (*known.listed, "", *options)) if len(found) == 1 else None


def _which_end(known: Known, parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    return known.listed[0 if parts["way"] == "first" else -1], (parts["way"], *known.listed, "", *options)


def _length(known: Known, _parts: Parts, options: Sequence[str]) -> tuple[str, Sequence[object]]:
    return list(_NUMERALS)[len(known.listed) - 1], (*known.listed, len(options))


def _number(known: Known) -> int:
    if known.number is None:
        raise KeyError("the number")
    return known.number


_A, _B, _N, _D = r"(?P<a>\w+)", r"(?P<b>\w+)", r"(?P<n>\d+)", r"(?P<day>\w+)day"
_MORE, _ORDER, _PARITY = "(?P<way>more|fewer)", "(?P<way>before|after)", "(?P<way>even|odd)"
_DAY_BESIDE = rf"(?:Which day is|What day is it) the day {_ORDER} {_A} comes"
_PATTERNS: tuple[tuple[str, Rule, tuple[str, ...]], ...] = (  # a key of the content, the rule, and its wordings
    ("than number", _than_number, (rf"(?:Does|Has) {_A} (?:have|got) {_MORE} than {_N}",)),
    ("than person", _than_person, (rf"(?:Does|Has) {_A} (?:have|got) {_MORE} than {_B}",)),
    ("who has", _who_has, (rf"Who has {_MORE}",)),
    ("number than", _number_than, (rf"Is the number (?P<way>larger|smaller) than {_N}",)),
    (
        "number compared",
        _number_compared,
        (rf"How is the number, compared with {_N}", rf"Compared with {_N}, how is the number"),
    ),
    ("parity", _is_even, (rf"Is {_A}'s number {_PARITY}", rf"Is the number {_PARITY}")),
    ("even or odd", _even_or_odd, (r"Is the number even or odd", r"What is the number")),
    (
        "range",
        _in_range,
        (rf"How many does {_A} have", rf"How large is {_A}'s number", r"(?:How large|Where) is the number"),
    ),
    ("order", _comes_order, (rf"(?:Does|Will) {_A} (?:come|be there) {_ORDER} {_D}",)),
    ("weekend", _at_weekend, (rf"(?:Does|Will) {_A} (?:come|be there) at the weekend",)),
    ("beside", _day_beside, (_DAY_BESIDE, rf"(?:When|Which day) does {_A} come")),
    ("who comes", _who_comes, (r"Who comes (?P<way>first|last)",)),
    (
        "part",
        _part_of_week,
        (rf"How late in the week does {_A} come", rf"Which part of the week is it when {_A} comes"),
    ),
    ("member", _is_listed, (rf"Is {_A} in the list", rf"Does the list have {_A}")),
    ("which", _which_listed, (r"Which (?:word|number) is in the list",)),
    ("end", _which_end, (r"Which (?:word|number) is (?P<way>first|last) in the list",)),
    ("length", _length, (r"How many (?:word|number)s (?:are in the list|does the list have)",)),
)
_RULES = {
    name: (rule, tuple(re.compile(rf"{pattern}\?", re.ASCII) for pattern in patterns))
    for name, rule, patterns in _PATTERNS
}
