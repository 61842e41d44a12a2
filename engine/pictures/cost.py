"""How many tokens of a prompt an image takes, by its size in pixels and its budget."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ImageCost:
    """Of a model whose soft tokens stand for ``tile`` pixels a side each."""

    tile: int

    def tiles(self, width: int, height: int, budget: int) -> tuple[int, int]:
        """Rows and columns of soft tokens of an image; their product is at most the budget."""
        factor = math.sqrt(budget * self.tile**2 / (height * width))
        rows, columns = (math.floor(factor * length / self.tile) for length in (height, width))
        # A side too short for one tile: its proportion is beyond 1 to the budget, and the other takes all there is.
        return (rows, columns) if rows and columns else (1, budget) if columns else (budget, 1)

    def soft_tokens(self, width: int, height: int, budget: int) -> int:
        """Tokens of an image without the two that it stands between."""
        return math.prod(self.tiles(width, height, budget))

    def __call__(self, width: int, height: int, budget: int) -> int:
        """Tokens of an image with those two."""
        return self.soft_tokens(width, height, budget) + 2
