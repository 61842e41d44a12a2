"""Stores pictures as files next to the library's database, named by their content hash. Thread-safe.

A file is written before the first message that shows it, and removed after the last one. ``sweep`` removes files that
a crash has left without a message.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from app.library.errors import LibraryError
from app.library.records import StoredMessage
from app.state.chat.conversation import Turn
from engine import SafelightError
from engine.files import is_plain_file, private_folder, read_bytes, replacing
from engine.pictures import MAX_BYTES, Picture

FOLDER = "pictures"
RECENT_BYTES = 64 * 2**20  # of the pictures read last, which stay in memory
TAKEN_BYTES = 512 * 2**20  # of an exported conversation's pictures, which are in memory at once
UNSENT_SECONDS = 24 * 3600.0  # for which a file without a message is kept: its prompt may not be sent yet
_OURS = re.compile(r"([0-9a-f]{64})|\.[0-9a-f]{64}\.[0-9a-f]{8}\.part")


class PictureStore:
    """The pictures of one library; without a folder they stay in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, Picture] = OrderedDict()
        self._in_use: weakref.WeakValueDictionary[str, Picture] = weakref.WeakValueDictionary()

    def keep(self, picture: Picture) -> None:
        """Writes a picture unless its file exists; replaces a damaged file.

        Raises:
            LibraryError: it cannot be written.
        """
        with self._lock:
            self._remember(picture)
        if self._folder is None:
            return
        path = self._folder / picture.digest
        try:
            if is_plain_file(path) and path.stat().st_size == len(picture.data) and path.read_bytes() == picture.data:
                os.utime(path)
                return
            private_folder(self._folder)
            with replacing(path, private=True) as unfinished:
                unfinished.write_bytes(picture.data)
        except (OSError, SafelightError) as error:
            raise LibraryError(str(error)) from error

    def renew(self, digest: str) -> None:
        """Writes a picture that is in memory again if its file is missing. Raises as ``keep``."""
        with self._lock:
            picture = self._in_use.get(digest)
        if self._folder is not None and is_plain_file(self._folder / digest):
            with suppress(OSError):
                os.utime(self._folder / digest)
        elif picture is not None:
            self.keep(picture)

    def of(self, messages: Iterable[StoredMessage | Turn], most: int = TAKEN_BYTES) -> tuple[Picture, ...]:
        """Returns the pictures of messages, each once, without missing ones; together at most ``most`` bytes."""
        pictures: dict[str, Picture] = {}
        for shown in (picture for message in messages for picture in message.pictures):
            picture = None if shown.digest in pictures else self.get(shown.digest, shown.width, shown.height)
            if picture is not None and len(picture.data) <= most:
                pictures[shown.digest] = picture
                most -= len(picture.data)
        return tuple(pictures.values())

    def get(self, digest: str, width: int, height: int) -> Picture | None:
        """Returns the picture with a content hash; None if its file is missing or damaged."""
        with self._lock:
            picture = self._in_use.get(digest)
        if picture is None and self._folder is not None:
            with suppress(OSError, SafelightError):
                data = read_bytes(self._folder / digest, MAX_BYTES, follow_links=False)
                if hashlib.sha256(data).hexdigest() == digest:
                    picture = Picture(digest, data, width, height)
        if picture is None:
            return None
        with self._lock:
            return self._remember(picture)

    def sweep(self, named: Collection[str], gone: Collection[str]) -> None:
        """Removes files that are not ``named``: those in ``gone`` at once, others after ``UNSENT_SECONDS``."""
        if self._folder is None:
            return
        before = time.time() - UNSENT_SECONDS
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                is_ours = _OURS.fullmatch(entry.name) is not None and entry.is_file(follow_symlinks=False)
                if is_ours and entry.name not in named:
                    with suppress(OSError):
                        if entry.name in gone or entry.stat(follow_symlinks=False).st_mtime < before:
                            os.unlink(entry.path)

    @property
    def is_empty(self) -> bool:
        try:
            return self._folder is None or not any(self._folder.iterdir())
        except OSError:
            return True

    def _remember(self, picture: Picture) -> Picture:
        """Caches a picture; returns the object already in use for this content, if two threads have read it at once.

        With two objects of one content, the end of one would remove the other, still in use, from the store.
        """
        picture = self._recent[picture.digest] = self._in_use.setdefault(picture.digest, picture)
        self._recent.move_to_end(picture.digest)
        size = sum(len(one.data) for one in self._recent.values())
        while self._folder is not None and size > RECENT_BYTES and len(self._recent) > 1:
            size -= len(self._recent.popitem(last=False)[1].data)
        return picture
