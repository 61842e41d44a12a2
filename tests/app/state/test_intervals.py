"""Intervals, against published numbers."""

from __future__ import annotations

import random

import pytest

from app.state.intervals import NORMAL_95, bootstrap, paired_difference, wilson


@pytest.mark.parametrize(
    ("solved", "count", "low", "high"),
    [  # as published for these counts, to four places
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_intervals(solved: int, count: int, low: float, high: float) -> None:
    assert wilson(solved, count) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))


def test_a_bootstrap_holds_the_middle_of_what_could_have_been() -> None:
    items = [float(number % 10) for number in range(200)]
    low, high = bootstrap(items, [1.0] * 200)
    assert 3.9 < low < 4.5 < high < 5.1
    assert bootstrap([2.0], [4.0]) == (0.5, 0.5)


def test_the_interval_of_a_paired_difference() -> None:
    """Fagerland, Lydersen and Laake (2014) give −0.517 to −0.026 for 1 and 7 of 21; without any, it is z²/(n + z²)."""
    assert paired_difference(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)
    even = NORMAL_95**2 / (200 + NORMAL_95**2)
    assert paired_difference(0, 0, 200) == pytest.approx((-even, even))
    assert paired_difference(0, 0, 0) == (-1.0, 1.0)
    rng = random.Random(5)
    for _ in range(100):
        count = rng.randint(1, 300)
        better = rng.randint(0, count)
        worse = rng.randint(0, count - better)
        low, high = paired_difference(better, worse, count)
        assert -1 <= low <= (better - worse) / count <= high <= 1
        assert paired_difference(worse, better, count) == (-high, -low)
