"""Long answers by one rule: counting up and down, and times tables."""

from __future__ import annotations

from engine.tasks.skills.skill import MAX_ANSWER, Parts, rule

_MAX_LINES = 40


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
    if not 1 <= last <= _MAX_LINES:
        return None
    lines, product = [], 0
    for line in range(1, last + 1):
        product += factor
        lines.append(f"{factor} x {line} = {product}")
    return "\n".join(lines)


COUNT_UP = rule(
    r"count (?:up )?from (?P<a>\d{1,4}) to (?P<b>\d{1,4})",
    answer=_solve_count,
    wording="Count from {a} to {b}.",
)
COUNTDOWN = rule(
    r"count ?down from (?P<a>\d{1,4}) to (?P<b>\d{1,4})",
    answer=_solve_countdown,
    wording="Count down from {a} to {b}.",
)
TIMES_TABLE = rule(
    r"times table of (?P<a>\d{1,3})(?: up to (?P<b>\d{1,2}))?",
    answer=_solve_times_table,
    wording="Times table of {a} up to {b}.",
    missing="10",
)
