"""A prompt: token ids, and the images among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

from engine.errors import SafelightError
from engine.layers.images import ImageRows, keyed


@dataclass(frozen=True, eq=False)
class Prompt(Sequence[int]):
    """Token ids with images, in order. As a sequence it is the ids alone.

    Raises:
        SafelightError: an image lies outside the text or in another, or at its very end: a token closes it.
    """

    ids: tuple[int, ...]
    images: tuple[ImageRows, ...] = ()

    def __post_init__(self) -> None:
        edges = [0, *(edge for image in self.images for edge in (image.start, image.end)), len(self.ids) - 1]
        if self.images and any(first > second for first, second in pairwise(edges)):
            raise SafelightError("images must lie in a prompt one behind the other, with a token behind the last")

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[int, ...]: ...
    def __getitem__(self, place: int | slice) -> int | tuple[int, ...]:
        return self.ids[place]

    @property
    def keys(self) -> list[int | str]:
        """What a cache knows its tokens by."""
        return keyed(self.ids, self.images)
