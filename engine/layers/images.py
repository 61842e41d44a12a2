"""Images in a text: what stands in place of their tokens' embeddings, and what a cache knows those tokens by.

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

    start: of the first one, in the text. rows: (n, H), one a token, as they go into the layers. key: the same for the
    same image read by the same budget, and for nothing else.
    """

    start: int
    rows: Tensor
    key: str

    @property
    def end(self) -> int:
        """Of the token behind the last one."""
        return self.start + len(self.rows)


def keyed(ids: Sequence[int], images: Sequence[ImageRows], start: int = 0) -> list[int | str]:
    """What tokens from ``start`` on are known by: their ids, and those of an image by its key."""
    found: list[int | str] = [*ids]
    for image in images:
        first, end = max(0, image.start - start), max(0, min(image.end - start, len(found)))
        found[first:end] = [image.key] * (end - first)
    return found
