"""95 % intervals of measured rates and ratios, and how a share is written. Knows neither Qt nor torch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

NORMAL_95 = 1.959963984540054  # standard deviations that hold 95 % of a normal distribution
DRAWS = 500  # of a bootstrap
T = TypeVar("T")


def wilson(solved: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a rate, as shares. Without a trial it is 0 to 1.

    Unlike the normal approximation it stays within 0 to 1 and keeps its width where all or none are solved.
    """
    if count == 0:
        return 0.0, 1.0
    rate, spread = solved / count, NORMAL_95**2 / count
    middle = rate + spread / 2
    reach = math.sqrt(spread * rate * (1 - rate) + spread**2 / 4)
    low, high = (middle - reach) / (1 + spread), (middle + reach) / (1 + spread)
    return (0.0 if solved == 0 else low), (1.0 if solved == count else high)


def percent(share: float | None) -> str:
    """A share of 0 to 1 as it stands in a table; a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def bootstrap(items: Sequence[T], figure: Callable[[Sequence[T]], float]) -> tuple[float, float]:
    """The 95 % interval of a figure of independent items: the middle of its values over samples of them.

    The same items give the same interval. Of one item it is the figure itself.

    Args:
        items: one or more.
    """
    rng = random.Random(len(items))
    found = sorted(figure(rng.choices(items, k=len(items))) for _ in range(DRAWS))
    return found[int(0.025 * DRAWS)], found[math.ceil(0.975 * DRAWS) - 1]
