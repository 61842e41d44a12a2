"""One measurement of influence and its colour scale: linear, or logarithmic for values of very different size.

Small models move some positions by a nat and others by a thousandth of one; a linear scale would show only the first.
Values below ``FLOOR`` count as no movement, since rounding alone moves distributions that far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app.inspector.words import in_nats, power_of_ten
from app.system.i18n import tr

FLOOR = 0.001  # nats; smaller values count as no movement
SPREAD = 100.0  # from this ratio of maximum to median of the moved positions on, the scale is logarithmic
LOWEST = -3  # the floor's power of ten


@dataclass(frozen=True)
class Scale:
    """The scale from values to colours. ``low`` is None on a linear scale, else the power of ten at its lower end."""

    most: float  # nats, at the upper end
    low: int | None = None

    def shares(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns positions on the scale (C,), 0 to 1; NaN for positions that did not move."""
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
        """The powers of ten as positions on the scale, 0 to 1; empty for a linear scale."""
        if self.low is None:
            return ()
        span = math.log10(self.most) - self.low
        return tuple((power - self.low) / span for power in range(self.low, math.floor(math.log10(self.most)) + 1))

    def ends(self) -> str:
        """Describes the two ends of the scale."""
        if self.low is None:
            return tr("KL, 0 to {most} nats", most=in_nats(self.most))
        return tr("KL, {low} to {most} nats", low=power_of_ten(self.low), most=in_nats(self.most))

    def kind(self) -> str:
        """Describes the kind of scale, linear or logarithmic."""
        if self.low is None:
            kind = tr("Linear scale.")
        else:
            kind = tr("Logarithmic scale: each mark is ten times the one before it.")
        return kind + " " + tr("No colour: less than {floor} nats.", floor=FLOOR)


@dataclass(frozen=True, eq=False)
class ShownInfluence:
    """One measurement: one step with a changed token, and the KL of each position's distribution to that without."""

    position: int
    before: int  # token id
    after: int  # token id
    kl: NDArray[np.float64]  # (C,) nats
    excluded: int  # a position left out: its influence on itself is meaningless

    @property
    def most(self) -> float:
        """The largest value in nats; 0 if no position moved by ``FLOOR`` or more."""
        most = float(np.delete(self.kl, self.excluded).max(initial=0.0))
        return most if most >= FLOOR else 0.0

    @property
    def count(self) -> int:
        """The number of positions that moved."""
        return int((np.delete(self.kl, self.excluded) >= FLOOR).sum())

    @cached_property
    def scale(self) -> Scale:
        """The scale that shows most: logarithmic if half of the moved positions would be invisible on a linear one."""
        others = np.delete(self.kl, self.excluded)
        moved = others[others >= FLOOR]
        if not len(moved) or self.most < SPREAD * float(np.median(moved)):
            return Scale(self.most)
        return Scale(self.most, max(LOWEST, math.floor(math.log10(float(moved.min())))))

    def moved(self, count: int) -> list[tuple[int, float]]:
        """Returns up to ``count`` positions that moved most, with their values in nats."""
        order = np.argsort(-self.kl, kind="stable").tolist()
        found = [
            (place, float(self.kl[place])) for place in order if place != self.excluded and self.kl[place] >= FLOOR
        ]
        return found[:count]
