"""A prompt: token ids, and the images among them. Needs no torch at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, overload

from engine.config import VisionConfig
from engine.errors import SafelightError
from engine.layers.images import ImageRows, keyed

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Prompt(Sequence[int]):
    """Token ids with images, in order. As a sequence it has only the ids.

    Raises:
        SafelightError: an image lies outside the text or in another, or at its very end: a token closes it.
    """

    ids: tuple[int, ...]
    images: tuple[ImageRows, ...] = ()

    def __post_init__(self) -> None:
        edges = [0, *(edge for image in self.images for edge in (image.start, image.end)), len(self.ids) - 1]
        if self.images and any(first > second for first, second in pairwise(edges)):
            raise SafelightError("images of a prompt must not overlap, and a token must follow the last")

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
        """The identities of its tokens in a cache."""
        return keyed(self.ids, self.images)


def with_image_tokens(ids: Sequence[int], vision: VisionConfig, counts: Sequence[int], fewest: int) -> list[int]:
    """Expands a rendered prompt, in which each image is one image token, to all tokens of its images.

    A template may leave out messages, the earliest first: the places are those of the last images.

    Args:
        counts: of the images' tokens, without begin and end tokens.
        fewest: least number of images that the template must place.

    Raises:
        SafelightError: there are more places for images, or fewer.
    """
    places = ids.count(vision.image_token_id)
    if not fewest <= places <= len(counts):
        raise SafelightError(
            f"the prompt has {places} places for {len(counts)} images: its text names the token of images, or the chat "
            "template does not place them. Take that out of the text"
        )
    expanded, left = list[int](), iter(counts[len(counts) - places :])
    for token in ids:
        whole = token == vision.image_token_id
        expanded += [vision.begin_token_id, *[token] * next(left), vision.end_token_id] if whole else [token]
    return expanded


def image_starts(ids: Sequence[int], vision: VisionConfig) -> list[int]:
    """Returns the positions of each image's first token."""
    token = vision.image_token_id
    return [place for place, one in enumerate(ids) if one == token and (place == 0 or ids[place - 1] != token)]


def with_rows(ids: Sequence[int], vision: VisionConfig, rows: Sequence[tuple[str, Tensor]]) -> Prompt:
    """Returns a prompt of ids, in which images have their tokens, and the images.

    Args:
        rows: the key and the rows (n, H) of each image.

    Raises:
        SafelightError: they are not those that the tokens stand for.
    """
    soft = [place for place, token in enumerate(ids) if token == vision.image_token_id]
    starts = image_starts(ids, vision)
    images = tuple(ImageRows(start, part, key) for start, (key, part) in zip(starts, rows, strict=False))
    if len(starts) != len(rows) or [place for image in images for place in range(image.start, image.end)] != soft:
        raise SafelightError("the images have changed since the prompt was made; ask again")
    return Prompt(tuple(ids), images)
