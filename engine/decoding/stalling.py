"""Finds out that a canvas no longer gets surer: its mean entropy has stopped falling. Pure; knows no tensors.

A canvas that settles gets surer at each step, and fastest at its end. One that does not settle keeps its doubts: its
entropy then falls only with the temperature, or goes up and down between two drafts. The number of changed guesses
says less: a canvas may alternate between two drafts to its last step, and one that settles may pause for four.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

FALL = 0.2  # share of the mean entropy by which it must fall to count


@dataclass(frozen=True)
class StallWatch:
    """The mean entropy of a canvas over its steps, as far as it matters.

    Args:
        steps: a canvas has stalled after so many steps in a row without a fall; 0 switches the watch off.
        level: nats at the latest fall.
        since: steps taken after that.
    """

    steps: int
    level: float = math.inf
    since: int = 0

    def after(self, entropy: float) -> StallWatch:
        """Returns the watch after the next step, with its mean entropy in nats."""
        if entropy < self.level * (1 - FALL):
            return replace(self, level=entropy, since=0)
        return replace(self, since=self.since + 1)

    @property
    def has_stalled(self) -> bool:
        return 0 < self.steps <= self.since

    @property
    def may_stall(self) -> bool:
        """True if the next step may be the last, so that none may be launched before its facts are known."""
        return 0 < self.steps <= self.since + 1
