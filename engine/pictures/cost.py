"""The number of tokens that an image takes in a prompt, by its size in pixels and its budget."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ImageCost:
    """The token counts of images for a model whose soft tokens stand for ``tile`` pixels a side each."""

    tile: int

    def tiles(self, width: int, height: int, budget: int) -> tuple[int, int]:
        """Returns the rows and columns of soft tokens of an image; their product is at most the budget."""
        factor = math.sqrt(budget * self.tile**2 / (height * width))
        rows, columns = (math.floor(factor * length / self.tile) for length in (height, width))
        # A side too short for one tile: the proportion is beyond 1 to the budget, and the other side takes the whole
        # budget.
        return (rows, columns) if rows and columns else (1, budget) if columns else (budget, 1)

    def soft_tokens(self, width: int, height: int, budget: int) -> int:
        """Returns the number of an image's tokens without its begin and end token."""
        return math.prod(self.tiles(width, height, budget))

    def __call__(self, width: int, height: int, budget: int) -> int:
        """Returns the number of an image's tokens with its begin and end token."""
        return self.soft_tokens(width, height, budget) + 2
