"""Temperatures and how good probabilities are, against numbers computed by hand."""

from __future__ import annotations

import math
import random

import pytest

from engine import SafelightError
from engine.tasks.decisions.answers import LabelRead
from engine.tasks.decisions.calibration import (
    COLDEST,
    HOTTEST,
    LabelledRead,
    fit_temperature,
    measure,
    reliability,
)


def read(*shares: float) -> LabelRead:
    return LabelRead(tuple(math.log(share) for share in shares))


def test_what_is_measured_is_what_one_computes_by_hand() -> None:
    found = measure([(0.92, 0.08), (0.96, 0.04), (0.25, 0.75), (0.2, 0.5, 0.3)], [0, 1, 1, 2])
    assert found.examples == 4
    assert found.accuracy == 0.5
    assert found.nll == pytest.approx(-(math.log(0.92) + math.log(0.04) + math.log(0.75) + math.log(0.3)) / 4)
    assert found.brier == pytest.approx((2 * 0.08**2 + 2 * 0.96**2 + 2 * 0.25**2 + 0.04 + 0.25 + 0.49) / 4)
    last, middle, half = found.bins[9], found.bins[7], found.bins[5]
    assert (last.count, last.mean_confidence, last.accuracy) == (2, pytest.approx(0.94), 0.5)
    assert (middle.low, middle.high, middle.count, middle.accuracy) == (0.7, 0.8, 1, 1.0)
    assert (half.count, half.mean_confidence, half.accuracy) == (1, 0.5, 0.0)
    assert sum(one.count for one in found.bins) == 4
    assert found.ece == pytest.approx((2 * (0.94 - 0.5) + (1 - 0.75) + 0.5) / 4)


def test_certainty_falls_into_the_last_bin_and_its_failure_stays_finite() -> None:
    found = measure([(1.0, 0.0), (1.0, 0.0)], [0, 1])
    assert found.bins[9].count == 2
    assert found.ece == 0.5
    assert math.isfinite(found.nll)


def test_the_temperature_of_two_options_has_a_closed_form() -> None:
    """Of n answers with one logit gap g, k are right: p = k/n is likeliest, so that T = g / ln(k / (n - k))."""
    gap = math.log(0.99 / 0.01)
    examples = [LabelledRead((read(0.99, 0.01),), int(place >= 15)) for place in range(20)]
    assert fit_temperature(examples) == pytest.approx(gap / math.log(3), rel=1e-4)
    before, after = reliability(examples), reliability(examples, fit_temperature(examples))
    assert (after.examples, after.accuracy) == (20, 0.75)
    assert before.ece == pytest.approx(0.24)
    assert after.ece == pytest.approx(0, abs=1e-4)
    assert after.brier == pytest.approx(2 * (0.75 * 0.25**2 + 0.25 * 0.75**2), abs=1e-6)
    assert after.nll < before.nll


def test_a_fit_is_the_lowest_of_all_temperatures() -> None:
    rng = random.Random(4)
    examples = []
    for _ in range(60):
        reads = tuple(LabelRead(tuple(rng.gauss(0, 3) for _ in range(rng.choice((2, 4))))) for _ in range(2))
        reads = tuple(LabelRead(one.logprobs[: min(len(each.logprobs) for each in reads)]) for one in reads)
        examples.append(LabelledRead(reads[: rng.choice((1, 2))], rng.randrange(2)))
    found = fit_temperature(examples)
    lowest = reliability(examples, found).nll
    assert all(lowest <= reliability(examples, 0.05 * 1.1**power).nll + 1e-9 for power in range(63))


def test_the_bounds() -> None:
    sure = LabelRead((0.0, -200.0))
    assert fit_temperature([LabelledRead((sure,), 0)] * 10) == 1  # nothing is gained by another
    wrong = fit_temperature([LabelledRead((sure,), 1)] * 10)
    assert wrong == pytest.approx(HOTTEST)
    unsure = fit_temperature([LabelledRead((read(0.52, 0.48),), 0)] * 10)
    assert COLDEST <= unsure < 0.06
    nothing = LabelRead((-math.inf, -math.inf))
    assert fit_temperature([LabelledRead((nothing,), 0)] * 10) == 1
    with pytest.raises(SafelightError, match="at least 10 labelled answers; there are 9"):
        fit_temperature([LabelledRead((sure,), 0)] * 9)
    with pytest.raises(SafelightError, match="no labelled examples"):
        measure([], [])
