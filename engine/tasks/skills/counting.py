"""Long answers by one rule: counting up and down, and times tables."""

from __future__ import annotations

import random

from engine.tasks.skills.skill import MAX_ANSWER, Example, Parts, Skill, ask, rule

_MOST_LINES = 40


def _count_up(rng: random.Random) -> Example:
    start, longest = rng.randint(1, 30), rng.randint(24, 185)
    end, length = start, len(str(start))
    while length + 2 + len(str(end + 1)) <= longest:
        end += 1
        length += 2 + len(str(end))
    answer = ", ".join(map(str, range(start, end + 1)))
    return ask(rng, "count_up", ("Count from {a} to {b}.", "Count up from {a} to {b}."), answer, a=start, b=end)


def _countdown(rng: random.Random) -> Example:
    end, longest = rng.randint(0, 20), rng.randint(24, 150)
    start, length = end, len(str(end))
    while length + 2 + len(str(start + 1)) <= longest:
        start += 1
        length += 2 + len(str(start))
    answer = ", ".join(map(str, range(start, end - 1, -1)))
    phrasings = ("Count down from {a} to {b}.", "Countdown from {a} to {b}.")
    return ask(rng, "countdown", phrasings, answer, a=start, b=end)


def _times_table(rng: random.Random) -> Example:
    factor, last = rng.randint(2, 12), rng.randint(3, 12)
    answer = "\n".join(f"{factor} x {i} = {factor * i}" for i in range(1, last + 1))
    limit = "" if last == 10 and rng.random() < 0.7 else f" up to {last}"
    return Example("times_table", f"Times table of {factor}{limit}.", answer)


def _solve_count(parts: Parts) -> str | None:
    first, last = int(parts["a"]), int(parts["b"])
    if not 0 < last - first <= MAX_ANSWER:
        return None
    numbers, now = [], first
    while now <= last:
        numbers.append(str(now))
        now += 1
    return ", ".join(numbers)


def _solve_countdown(parts: Parts) -> str | None:
    upwards = _solve_count({"a": parts["b"], "b": parts["a"]})
    return None if upwards is None else ", ".join(reversed(upwards.split(", ")))


def _solve_times_table(parts: Parts) -> str | None:
    factor, last = int(parts["a"]), int(parts["b"])
    if not 1 <= last <= _MOST_LINES:
        return None
    lines, product = [], 0
    for line in range(1, last + 1):
        product += factor
        lines.append(f"{factor} x {line} = {product}")
    return "\n".join(lines)


COUNT_UP = Skill(
    "count_up",
    "Count up",
    _count_up,
    rule=rule(
        r"count (?:up )?from (?P<a>\d{1,4}) to (?P<b>\d{1,4})",
        answer=_solve_count,
        wording="Count from {a} to {b}.",
    ),
)
COUNTDOWN = Skill(
    "countdown",
    "Count down",
    _countdown,
    rule=rule(
        r"count ?down from (?P<a>\d{1,4}) to (?P<b>\d{1,4})",
        answer=_solve_countdown,
        wording="Count down from {a} to {b}.",
    ),
)
TIMES_TABLE = Skill(
    "times_table",
    "Write a times table",
    _times_table,
    8,
    rule(
        r"times table of (?P<a>\d{1,3})(?: up to (?P<b>\d{1,2}))?",
        answer=_solve_times_table,
        wording="Times table of {a} up to {b}.",
        missing="10",
    ),
)
