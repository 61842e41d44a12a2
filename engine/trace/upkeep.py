"""Keeps the folder of traces within bounds."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from engine.trace.layout import SUFFIX

BUDGET_BYTES = 2 * 10**9
NEWEST = 50


def prune_traces(folder: Path, budget: int = BUDGET_BYTES, newest: int = NEWEST) -> int:
    """Remove the oldest traces of a folder until the rest is within ``budget`` bytes; never the ``newest`` ones.

    A trace that cannot be removed stays. A folder that is not there needs no pruning.

    Returns:
        How many were removed.
    """
    found: list[tuple[int, str, int]] = []  # when, where, bytes
    for path in folder.glob("*" + SUFFIX):
        with suppress(OSError):  # it has just gone
            status = path.stat()
            found.append((status.st_mtime_ns, str(path), status.st_size))
    found.sort()
    total = sum(size for _, _, size in found)
    removed = 0
    for _, place, size in found[: max(0, len(found) - newest)]:
        if total <= budget:
            break
        try:
            Path(place).unlink()
        except OSError:
            continue
        total -= size
        removed += 1
    return removed
