"""Decodes the pictures of a page to images of the size in which they are shown. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from PySide6.QtGui import QImage

from app.state.chat.attachment import AttachedPicture
from engine import SafelightError
from engine.pictures import Picture, thumbnail

RECENT = 64  # small images that stay in memory, at most 0.6 MB each
THUMBNAIL_SIDE = 384  # longest side in pixels; shown at half the size, for screens with a pixel ratio of 2
LARGE = 2048  # longest side in pixels

Find = Callable[[str, int, int], Picture | None]
"""Returns the picture with a digest, width and height; None if it is missing or damaged."""


class PictureSource:
    """Decodes pictures and caches the small images of the last ``RECENT``."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # so that only one file is in memory at a time
        self._small: OrderedDict[str, QImage] = OrderedDict()

    def small(self, shown: AttachedPicture) -> QImage | None:
        """Returns an image with sides of at most ``THUMBNAIL_SIDE`` pixels; None if the picture cannot be read."""
        with self._lock:
            if shown.digest in self._small:
                self._small.move_to_end(shown.digest)
                return self._small[shown.digest]
        image = self._image(shown, THUMBNAIL_SIDE)
        if image is None:  # not cached: the file may be restored later
            return None
        with self._lock:
            self._small[shown.digest] = image
            while len(self._small) > RECENT:
                self._small.popitem(last=False)
        return image

    def known(self, shown: AttachedPicture) -> QImage | None:
        """Returns the image of ``small`` if it is in memory, else None."""
        with self._lock:
            return self._small.get(shown.digest)

    def large(self, shown: AttachedPicture) -> QImage | None:
        """Returns an image with sides of at most ``LARGE`` pixels; None if the picture cannot be read."""
        return self._image(shown, LARGE)

    def _image(self, shown: AttachedPicture, side: int) -> QImage | None:
        with self._reading:
            picture = self._find(shown.digest, shown.width, shown.height)
            try:
                colours = None if picture is None else thumbnail(picture, side)
            except SafelightError:
                colours = None
        if colours is None:
            return None
        height, width = colours.shape[:2]
        return QImage(colours.tobytes(), width, height, 3 * width, QImage.Format.Format_RGB888).copy()
