"""Whether a file is what the hub lists: SHA-256 of large ones, git's SHA-1 of small ones. Knows no network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from engine.hub.record import RemoteFile

PIECE = 2**22  # bytes read at once


def is_right(path: Path, file: RemoteFile, counted: Callable[[int], None]) -> bool:
    """Read a file and compare its size and hash; ``counted`` hears of the bytes read and may raise to stop."""
    if path.stat().st_size != file.bytes:
        return False
    state = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.bytes, usedforsecurity=False)
    with path.open("rb", buffering=0) as opened:
        while piece := opened.read(PIECE):
            state.update(piece)
            counted(len(piece))
    return state.hexdigest() == (file.sha256 or file.blob)
