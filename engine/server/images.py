"""The pictures that requests show: each once in memory, within bounds."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from weakref import WeakValueDictionary

from engine.pictures import Picture, open_picture
from engine.server.errors import too_many
from engine.trace.format import MAX_PICTURED

MAX_KEPT = 4_096  # recently shown pictures


class ServedPictures:
    """The pictures of running requests, and recently shown ones: a conversation's next turn shows them again.

    ``most`` bytes in all.
    """

    def __init__(self, most: int = MAX_PICTURED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, Picture] = OrderedDict()
        self._alive: WeakValueDictionary[str, Picture] = WeakValueDictionary()

    def find(self, digest: str) -> Picture | None:
        """Returns the picture of a digest; None if it was not sent, or was dropped."""
        with self._lock:
            picture = self._alive.get(digest)
            if picture is not None:
                self._recent[digest] = picture
                self._recent.move_to_end(digest)
            return picture

    def take(self, data: bytes) -> Picture:
        """Returns the picture of these bytes. Slow: it is decoded, unless it is known.

        Raises:
            SafelightError: it is no picture that is read.
            ApiError: the pictures of running requests leave no room for it.
        """
        known = self.find(hashlib.sha256(data).hexdigest())
        if known is not None:
            return known
        picture = open_picture(data)
        with self._lock:
            if (known := self._alive.get(picture.digest)) is not None:
                return known  # another thread was faster
            while self._recent and (len(self._recent) >= MAX_KEPT or self._size() + len(data) > self._most):
                self._recent.popitem(last=False)
            if self._size() + len(data) > self._most:
                raise too_many("Pictures of other requests use all the memory for pictures; try again later.")
            self._alive[picture.digest] = self._recent[picture.digest] = picture
        return picture

    def _size(self) -> int:
        return sum(len(picture.data) for picture in self._alive.values())
