"""A layer: one number for every cell of a block, shown as a colour. Without Qt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""The position on the colour ramp of a cell that has no number."""


@dataclass(frozen=True, eq=False)
class Heat:
    """A number for every cell, with its scale and words. Texts are in the user's language and include their units."""

    shares: NDArray[np.float32]  # (C,) position on the scale, 0 to 1; NaN leaves a cell uncoloured
    name: str
    low: str  # the label at the lower end of the scale
    high: str
    words: Callable[[int], str] | None = None  # a cell's number in words, for its tool tip

    def same_as(self, other: Heat | None) -> bool:
        """True if both look the same when painted."""
        return (
            other is not None
            and (self.name, self.low, self.high) == (other.name, other.low, other.high)
            and np.array_equal(self.shares, other.shares, equal_nan=True)
        )


def places(shares: NDArray[np.float32], steps: int) -> list[int]:
    """Converts positions on the scale (0 to 1) to indices on a ramp of ``steps`` + 1 colours.

    Values outside the scale are clamped; NaN becomes ``NONE``.
    """
    indices = np.rint(np.clip(np.nan_to_num(shares, nan=0.0), 0.0, 1.0) * steps).astype(np.int32)
    ramp: list[int] = np.where(np.isnan(shares), NONE, indices).tolist()
    return ramp
