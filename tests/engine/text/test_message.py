"""A message's images as they come from outside."""

from __future__ import annotations

from typing import Any

import pytest

from engine import SafelightError
from engine.pictures import Picture
from engine.text.message import image_digests, image_of, read_message

FIRST, SECOND = (Picture(sign * 64, b"", 30, 20) for sign in "ab")


def test_images_are_read_as_they_are_written() -> None:
    images = [image_of(FIRST), image_of(SECOND, at=2), image_of(FIRST, at=2)]
    assert read_message({"role": "user", "content": "hi", "images": images})["images"] == tuple(images)
    assert image_digests([{"role": "user", "content": "hi", "images": images}, {"role": "user", "content": ""}]) == (
        "a" * 64,
        "b" * 64,
    )


@pytest.mark.parametrize(
    "raw",
    [
        "x",
        [image_of(FIRST) | {"digest": "A" * 64}],
        [image_of(FIRST) | {"height": 0}],
        [image_of(FIRST, at=3)],
        [image_of(FIRST, at=1), image_of(SECOND)],
        [image_of(FIRST)] * 65,
    ],
)
def test_images_out_of_bounds(raw: Any) -> None:
    with pytest.raises(SafelightError, match="image"):
        read_message({"role": "user", "content": "hi", "images": raw})
