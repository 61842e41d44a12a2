"""95 % intervals of measured rates and ratios, and the format of shares. Knows neither Qt nor torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

NORMAL_95 = 1.959963984540054  # standard deviations that hold 95 % of a normal distribution
DRAWS = 500  # of a bootstrap
BISECTIONS = 50  # to the last bit of a share


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


def paired_difference(better: int, worse: int, count: int) -> tuple[float, float]:
    """Returns Tango's 95 % score interval of the difference of two rates over the same items, as shares.

    It is -1 to 1 if ``count`` is 0, and keeps a width if both rates agree on all items (Statistics in Medicine 17,
    1998, 891-908).

    Args:
        better, worse: items that only the first has solved, and only the second.
    """
    if count == 0:
        return -1.0, 1.0
    return -_upper(worse, better, count), _upper(better, worse, count)


def _upper(better: int, worse: int, count: int) -> float:
    """Returns the largest difference at which Tango's score is within ``NORMAL_95``, by bisection."""
    low, high = (better - worse) / count, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _tango(better, worse, count, middle) < NORMAL_95:
            low = middle
        else:
            high = middle
    return high


def _tango(better: int, worse: int, count: int, difference: float) -> float:
    """Returns how many standard errors a difference is above the observed one, with the rates likeliest under it."""
    linear = (2 * count - better + worse) * difference - better - worse
    constant = -worse * difference * (1 - difference)
    only_second = (math.sqrt(linear**2 - 8 * count * constant) - linear) / (4 * count)
    variance = count * (2 * only_second + difference * (1 - difference))
    above = count * difference - (better - worse)
    return above / math.sqrt(variance) if variance > 0 else math.inf * above if above > 0 else 0.0


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
    rng, ratios = np.random.default_rng(count), []
    for _ in range(DRAWS):
        drawn = rng.integers(count, size=count)
        ratios.append(float(above[drawn].sum() / below[drawn].sum()))
    ratios.sort()
    return ratios[int(0.025 * DRAWS)], ratios[math.ceil(0.975 * DRAWS) - 1]
