"""Pictures that people add to a prompt: checked, bounded, named by their content. Knows neither torch nor Qt."""

from __future__ import annotations

from engine.pictures.picture import (
    BLIND,
    MAX_BYTES,
    MAX_SIDE,
    ImageCost,
    Picture,
    data_url,
    is_picture,
    open_picture,
    pixels,
    read_picture,
    thumbnail,
)

__all__ = [
    "BLIND",
    "MAX_BYTES",
    "MAX_SIDE",
    "ImageCost",
    "Picture",
    "data_url",
    "is_picture",
    "open_picture",
    "pixels",
    "read_picture",
    "thumbnail",
]
