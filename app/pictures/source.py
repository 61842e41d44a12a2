"""Where the pictures of a page come from, as images of the size that they are shown in. Any thread may call it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from PySide6.QtGui import QImage

from app.state.chat.attachment import AttachedPicture
from engine import SafelightError
from engine.pictures import Picture, thumbnail

RECENT = 64  # images that stay in memory, at most 0.6 MB each
SMALL = 384  # pixels of a side, which is shown at half of that: enough for screens with two pixels in place of one
LARGE = 2048

Find = Callable[[str, int, int], Picture | None]
"""The picture of a digest, width and height; None where it is missing or damaged."""


class PictureSource:
    """Decodes each picture once for as long as it is looked at."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # one file in memory, however many are asked for
        self._small: OrderedDict[str, QImage] = OrderedDict()

    def small(self, shown: AttachedPicture) -> QImage | None:
        """At most ``SMALL`` pixels a side; None where it cannot be read."""
        with self._lock:
            if shown.digest in self._small:
                self._small.move_to_end(shown.digest)
                return self._small[shown.digest]
        image = self._image(shown, SMALL)
        if image is None:  # it may be put in again
            return None
        with self._lock:
            self._small[shown.digest] = image
            while len(self._small) > RECENT:
                self._small.popitem(last=False)
        return image

    def known(self, shown: AttachedPicture) -> QImage | None:
        """As ``small``, if that is in memory."""
        with self._lock:
            return self._small.get(shown.digest)

    def large(self, shown: AttachedPicture) -> QImage | None:
        """At most ``LARGE`` pixels a side; None where it cannot be read."""
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
