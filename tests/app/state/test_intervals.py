"""The interval of a paired difference, against published numbers."""

from __future__ import annotations

import random

import pytest

from app.state.intervals import NORMAL_95, paired_difference


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
