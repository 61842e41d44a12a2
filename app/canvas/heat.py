"""A number for every cell of a block, to be shown as colour: what a layer is. Without Qt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""The place on the ramp of a cell that has no number."""


@dataclass(frozen=True, eq=False)
class Heat:
    """Texts are in the user's language and hold their units."""

    shares: NDArray[np.float32]  # (C,) of the scale, 0 to 1; NaN leaves a cell as it is
    name: str
    low: str  # what stands at the lower end of the scale
    high: str
    swatches: tuple[tuple[float, str], ...] = ()  # instead of the two ends, where only a few values occur
    words: Callable[[int], str] | None = None  # a cell's number, for its tool tip

    def places(self, steps: int) -> list[int]:
        """Where on a ramp of ``steps`` + 1 colours every cell lies, or ``NONE``."""
        return places(self.shares, steps)

    def same_as(self, other: Heat | None) -> bool:
        """Whether both are painted the same way."""
        return (
            other is not None
            and (self.name, self.low, self.high, self.swatches) == (other.name, other.low, other.high, other.swatches)
            and np.array_equal(self.shares, other.shares, equal_nan=True)
        )


def places(shares: NDArray[np.float32], steps: int) -> list[int]:
    """Shares of a scale as whole places on a ramp; clamped to its ends, NaN is ``NONE``."""
    found = np.rint(np.clip(np.nan_to_num(shares, nan=0.0), 0.0, 1.0) * steps).astype(np.int32)
    ramp: list[int] = np.where(np.isnan(shares), NONE, found).tolist()
    return ramp
