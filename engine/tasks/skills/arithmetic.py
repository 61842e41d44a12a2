"""Tasks on numbers: sums, differences, orders, patterns, counting, times tables, and a sentence with a gap."""

from __future__ import annotations

from itertools import pairwise

from engine.tasks.skills.skill import MAX_ANSWER, Parts, rule

THINGS = ("pens", "cups", "hats", "books", "coins", "keys", "nuts", "eggs", "plums", "figs")
GAINS = ("got", "found", "won")
LOSSES = ("lost", "sold", "ate")


def _solve_difference(parts: Parts) -> str | None:
    difference = int(parts["a"]) - int(parts["b"])
    return str(difference) if difference >= 0 else None


def _solve_pattern(parts: Parts) -> str | None:
    row = [int(number) for number in parts["n"].split()]
    steps = {after - before for before, after in pairwise(row)}
    if len(steps) != 1:
        return None
    step = steps.pop()
    following = [row[-1] + step, row[-1] + 2 * step, row[-1] + 3 * step]
    return " ".join(map(str, following)) if min(following) >= 0 else None


def _solve_gap(parts: Parts) -> str | None:
    change = int(parts["b"]) if parts["verb"].lower() in GAINS else -int(parts["b"])
    left = int(parts["a"]) + change
    return f"{parts['start']}{left}." if left >= 0 else None


SORT_NUMBERS = rule(
    r"sort (?:the numbers )?(?P<n>\d{1,6}(?: \d{1,6})+)",
    answer=lambda p: " ".join(sorted(p["n"].split(), key=int)),
    wording="Sort {n}.",
)
ADD = rule(
    r"(?:what is )?(?P<a>\d{1,6}) ?\+ ?(?P<b>\d{1,6})(?: ?=)?",
    r"add (?P<a>\d{1,6}) and (?P<b>\d{1,6})",
    answer=lambda p: str(int(p["a"]) + int(p["b"])),
    wording="What is {a} + {b}?",
)
SUBTRACT = rule(
    r"(?:what is )?(?P<a>\d{1,6}) ?- ?(?P<b>\d{1,6})(?: ?=)?",
    r"take (?P<b>\d{1,6}) from (?P<a>\d{1,6})",
    answer=_solve_difference,
    wording="What is {a} - {b}?",
)
PATTERN = rule(
    r"(?:continue|what comes after) (?P<n>\d{1,6}(?: \d{1,6}){2,5})",
    answer=_solve_pattern,
    wording="Continue {n}",
)
FILL_GAP = rule(
    rf"fill in: ?(?P<start>[a-z]+ had (?P<a>\d{{1,4}}) [a-z]+, (?P<verb>{'|'.join(GAINS + LOSSES)}) "
    rf"(?P<b>\d{{1,4}}), now has )_",
    answer=_solve_gap,
    wording=lambda p: f"Fill in: {p['start'].capitalize()}_.",
)


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
