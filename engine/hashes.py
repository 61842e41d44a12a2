"""Compares files with their hashes. Knows no network and no torch."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from engine.files import open_regular

PIECE = 2**22  # bytes read at once
HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


def matches(path: Path, digest: str, counted: Callable[[int], None]) -> bool:
    """Returns True if a file's content has a SHA-256, or git's SHA-1, which has fewer digits.

    ``counted`` is called with the bytes of each piece that was read, and may raise to stop.
    """
    with open_regular(path) as opened:
        head = b"blob %d\0" % os.fstat(opened.fileno()).st_size
        state = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(head, usedforsecurity=False)
        while piece := opened.read(PIECE):
            state.update(piece)
            counted(len(piece))
    return state.hexdigest() == digest
