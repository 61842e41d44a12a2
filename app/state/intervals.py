"""95 % intervals of measured rates and ratios, and the format of shares. Knows neither Qt nor torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

NORMAL_95 = 1.959963984540054  # standard deviations that hold 95 % of a normal distribution
DRAWS = 500  # of a bootstrap


def wilson(solved: int, count: int) -> tuple[float, float]:
    """Returns Wilson's 95 % interval of a rate, as shares; 0 to 1 if ``count`` is 0.

    Unlike the normal approximation it stays within 0 to 1, and keeps a width if all or none are solved.
    """
    if count == 0:
        return 0.0, 1.0
    rate, spread = solved / count, NORMAL_95**2 / count
    middle = rate + spread / 2
    reach = math.sqrt(spread * rate * (1 - rate) + spread**2 / 4)
    low, high = (middle - reach) / (1 + spread), (middle + reach) / (1 + spread)
    return (0.0 if solved == 0 else low), (1.0 if solved == count else high)


def percent(share: float | None) -> str:
    """Returns a share of 0 to 1 in per cent for a table; a dash for None."""
    return "–" if share is None else f"{100 * share:.1f} %"


def bootstrap(tops: Sequence[float], bottoms: Sequence[float]) -> tuple[float, float]:
    """Returns the 95 % percentile bootstrap interval of a ratio of two sums over independent items.

    Equal items give equal intervals. The interval of a single item is the ratio itself.

    Args:
        tops, bottoms: numerator and denominator of each of one or more items; the denominators are above 0.
    """
    above, below, count = np.asarray(tops, np.float64), np.asarray(bottoms, np.float64), len(tops)
    rng, found = np.random.default_rng(count), []
    for _ in range(DRAWS):
        drawn = rng.integers(count, size=count)
        found.append(float(above[drawn].sum() / below[drawn].sum()))
    found.sort()
    return found[int(0.025 * DRAWS)], found[math.ceil(0.975 * DRAWS) - 1]
