"""Texts with a gap: each has one filling, by rules that know nothing of the makers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import pairwise

import pytest

from small_models import gaps
from small_models.skills import is_held_out_content


def series(text: str) -> bool:
    numbers = [int(term) for term in re.split(", | ", text)]
    return len({later - earlier for earlier, later in pairwise(numbers)}) == 1


def table(text: str) -> bool:
    rows = [re.fullmatch(r"(\d+) x (\d+) = (\d+)", line) for line in text.split("\n")]
    numbers = [tuple(map(int, row.groups())) for row in rows if row]
    following = all(later[1] - earlier[1] == 1 for earlier, later in pairwise(numbers))
    return following and len(numbers) == len(rows) > 3 and all(a * b == c for a, b, c in numbers)


def total(text: str) -> bool:
    found = re.fullmatch(r"(\d+) \+ (\d+) = (\d+)", text)
    return found is not None and int(found[1]) + int(found[2]) == int(found[3])


def brackets(text: str) -> bool:
    opened = list[str]()
    for mark in text:
        if mark in "([{":
            opened.append({"(": ")", "[": "]", "{": "}"}[mark])
        elif mark in ")]}" and (not opened or opened.pop() != mark):
            return False
    return not opened


def capitals(text: str) -> bool:
    words = text.split(" ")
    return [word.upper() for word in words[::2]] == words[1::2]


def calendar(text: str) -> bool:
    names = text.split(", ")
    order = gaps.DAYS if names[0] in gaps.DAYS else gaps.MONTHS
    places = [order.index(name) for name in names]
    return all((later - earlier) % len(order) == 1 for earlier, later in pairwise(places))


RULES: dict[str, Callable[[str], bool]] = {
    one.__name__: one for one in (series, table, total, brackets, capitals, calendar)
} | {"sum": total, "phrase": gaps.PHRASES.__contains__}


@pytest.mark.parametrize("kind", gaps.KINDS)
def test_a_text_keeps_the_rule_of_its_kind_and_a_changed_answer_breaks_it(kind: str) -> None:
    rng, holds = random.Random(1), RULES[kind]
    for _ in range(200):
        split = rng.choice(("train", "test"))
        gap = gaps.sample(rng, split, {kind: 1})
        assert gap.kind == kind
        assert gap.answer
        assert holds(gap.text)
        if kind not in ("phrase", "calendar"):
            assert is_held_out_content(gap.text) == (split == "test")
        assert len(gap.text) <= gaps.MAX_TEXT
        if kind != "calendar":  # a name that is none has no place
            other = gap.answer[:-1] + ("2" if gap.answer[-1] == "1" else "1")
            assert not holds(gap.prefix + other + gap.suffix)
