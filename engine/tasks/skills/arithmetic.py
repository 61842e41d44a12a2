"""Tasks on numbers: sums, differences, orders, patterns, and a sentence with a gap."""

from __future__ import annotations

from itertools import pairwise

from engine.tasks.skills.skill import Parts, rule

THINGS = ("pens", "cups", "hats", "books", "coins", "keys", "nuts", "eggs", "plums", "figs")
GAINS = ("got", "found", "won")
LOSSES = ("lost", "sold", "ate")


def _solve_sorted_numbers(parts: Parts) -> str:
    return " ".join(sorted(parts["n"].split(), key=int))


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
    r"sort (?:the numbers )?(?P<n>\d{1,6}(?: \d{1,6})+)", answer=_solve_sorted_numbers, wording="Sort {n}."
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
