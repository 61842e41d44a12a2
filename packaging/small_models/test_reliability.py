"""Measures of how good probabilities are, against numbers computed by hand."""

from __future__ import annotations

import pytest

from engine import SafelightError
from small_models.reliability import measure


def test_what_is_measured_is_what_one_computes_by_hand() -> None:
    found = measure([(0.92, 0.08), (0.96, 0.04), (0.25, 0.75), (0.2, 0.5, 0.3)], [0, 1, 1, 2])
    assert (found.examples, found.accuracy) == (4, 0.5)
    assert found.brier == pytest.approx((2 * 0.08**2 + 2 * 0.96**2 + 2 * 0.25**2 + 0.04 + 0.25 + 0.49) / 4)
    assert found.ece == pytest.approx((2 * (0.94 - 0.5) + (1 - 0.75) + 0.5) / 4)
    assert measure([(1.0, 0.0), (1.0, 0.0)], [0, 1]).ece == 0.5  # certainty falls into the last bin
    with pytest.raises(SafelightError, match="no labelled examples"):
        measure([], [])
