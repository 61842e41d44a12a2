"""One measurement of influence, and the scale its figures are shown on: linear, or logarithmic where they spread far.

Small models move some positions by a nat and others by a thousandth of one; on a linear scale only the first are seen.
What is below ``FLOOR`` is nothing, however little the others moved: rounding alone moves distributions that far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app.inspector.words import in_nats, power_of_ten
from app.system.i18n import tr

FLOOR = 0.001  # nats; what is below is nothing
SPREAD = 100.0  # from here on, most by median of what moved, the scale is logarithmic
LOWEST = -3  # the power of ten of the floor


@dataclass(frozen=True)
class Scale:
    """From figures to colours. ``low`` is None on a linear scale, else the power of ten at its lower end."""

    most: float  # nats, at the upper end
    low: int | None = None

    @property
    def is_log(self) -> bool:
        return self.low is not None

    def shares(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(C,) of the scale, 0 to 1; NaN for what did not move."""
        found = self._shares(values)
        found[values < FLOOR] = np.nan
        return found

    def _shares(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        most = self.most or 1.0
        if self.low is None:
            return np.clip(values / most, 0.0, 1.0)
        span = math.log10(most) - self.low
        powers = np.log10(np.maximum(values, 10.0**self.low))
        found: NDArray[np.float64] = np.clip((powers - self.low) / span, 0.0, 1.0)
        return found

    @property
    def marks(self) -> tuple[float, ...]:
        """Where on the scale, 0 to 1, its powers of ten stand; none on a linear one."""
        if self.low is None:
            return ()
        span = math.log10(self.most) - self.low
        return tuple((power - self.low) / span for power in range(self.low, math.floor(math.log10(self.most)) + 1))

    def ends(self) -> str:
        """From its lower to its upper end."""
        if self.low is None:
            return tr("KL, 0 to {most} nats", most=in_nats(self.most))
        return tr("KL, {low} to {most} nats", low=power_of_ten(self.low), most=in_nats(self.most))

    def kind(self) -> str:
        """How it goes from one end to the other."""
        if self.low is None:
            kind = tr("Linear scale: half the colours are half as many nats.")
        else:
            kind = tr("Logarithmic scale: from mark to mark it is ten times as many nats.")
        return kind + " " + tr("Without colour: less than {floor} nats, which is nothing.", floor=FLOOR)


@dataclass(frozen=True, eq=False)
class ShownInfluence:
    """One measurement: a token changed, one step run, and each position's distribution before and after."""

    position: int
    before: int  # tokens
    after: int
    kl: NDArray[np.float64]  # (C,) nats
    excluded: int  # the position that is left out: influence on itself says nothing

    @property
    def most(self) -> float:
        """The largest, nats; 0 where nothing moved by the floor."""
        most = float(np.delete(self.kl, self.excluded).max(initial=0.0))
        return most if most >= FLOOR else 0.0

    @property
    def count(self) -> int:
        """How many positions moved."""
        return int((np.delete(self.kl, self.excluded) >= FLOOR).sum())

    @cached_property
    def scale(self) -> Scale:
        """The one that shows most of it: logarithmic where half of what moved would be told from nothing by no eye."""
        others = np.delete(self.kl, self.excluded)
        moved = others[others >= FLOOR]
        if not len(moved) or self.most < SPREAD * float(np.median(moved)):
            return Scale(self.most)
        return Scale(self.most, max(LOWEST, math.floor(math.log10(float(moved.min())))))

    def moved(self, count: int) -> list[tuple[int, float]]:
        """The ``count`` positions that moved most, with their nats; none of those that did not move."""
        order = np.argsort(-self.kl, kind="stable").tolist()
        found = [
            (place, float(self.kl[place])) for place in order if place != self.excluded and self.kl[place] >= FLOOR
        ]
        return found[:count]
