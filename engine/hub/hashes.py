"""Whether a file is what the hub lists: SHA-256 of large ones, git's SHA-1 of small ones. Knows no network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from engine.files import open_regular
from engine.hub.record import RemoteFile, size_of

PIECE = 2**22  # bytes read at once


def is_right(path: Path, file: RemoteFile, counted: Callable[[int], None]) -> bool:
    """Read a file and compare its size and hash; ``counted`` hears of the bytes read and may raise to stop."""
    if size_of(path) != file.bytes:
        return False
    state = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.bytes, usedforsecurity=False)
    with open_regular(path, follow_links=False) as opened:
        while piece := opened.read(PIECE):
            state.update(piece)
            counted(len(piece))
    return state.hexdigest() == (file.sha256 or file.blob)
