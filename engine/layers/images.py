"""Images in a text: the rows that replace their tokens' embeddings, and the keys that identify their tokens in a cache.

Needs no torch at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class ImageRows:
    """An image's soft tokens.

    start: position of the first one in the text. rows: (n, H), one a token, as they enter the layers. key: equal only
    for the same image read with the same budget.
    """

    start: int
    rows: Tensor
    key: str

    @property
    def end(self) -> int:
        """Position after the last token."""
        return self.start + len(self.rows)


def keyed(ids: Sequence[int], images: Sequence[ImageRows], start: int = 0) -> list[int | str]:
    """Returns the identities of tokens from ``start`` on: their ids, or for an image's tokens its key."""
    keys: list[int | str] = [*ids]
    for image in images:
        first, end = max(0, image.start - start), max(0, min(image.end - start, len(keys)))
        keys[first:end] = [image.key] * (end - first)
    return keys
