"""Pictures for tests, a few hundred bytes each."""

from __future__ import annotations

import io

from PIL import Image

from engine.pictures import Picture, open_picture


def picture(colour: str = "red", width: int = 30, height: int = 20) -> Picture:
    """A picture of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, "PNG")
    return open_picture(file.getvalue())
