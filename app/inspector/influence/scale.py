"""One measurement of influence, and its logarithmic colour scale.

Small models move some positions by a nat and others by a thousandth of one; a linear scale would show only the first.
Values below ``FLOOR`` count as no movement, since rounding alone moves distributions that far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FLOOR = 0.001  # nats; smaller values count as no movement


@dataclass(frozen=True, eq=False)
class ShownInfluence:
    """One measurement: one step with a changed token, and the KL of each position's distribution to that without.

    The changed position itself is left out: its influence on itself is meaningless.
    """

    position: int
    before: int  # token id
    after: int  # token id
    kl: NDArray[np.float64]  # (C,) nats

    @property
    def others(self) -> NDArray[np.float64]:
        """The values (C,), 0 at the changed position and where nothing moved."""
        found = np.where(self.kl < FLOOR, 0.0, self.kl)
        found[self.position] = 0.0
        return found

    @property
    def most(self) -> float:
        """The largest value in nats; 0 if no position moved."""
        return float(self.others.max(initial=0.0))

    @property
    def count(self) -> int:
        """The number of positions that moved."""
        return int((self.others > 0).sum())

    @property
    def _decades(self) -> float:
        """The length of the scale, from ``FLOOR`` to the largest value, in powers of ten."""
        return max(math.log10(max(self.most, FLOOR) / FLOOR), 1e-9)

    def shares(self) -> NDArray[np.float64]:
        """Returns positions on the scale (C,), 0 to 1; NaN for positions that did not move."""
        others = self.others
        moved = np.where(others > 0, others, np.nan)
        found: NDArray[np.float64] = np.clip(np.log10(moved / FLOOR) / self._decades, 0.0, 1.0)
        return found
