"""Folders of traces: the user's own, kept private and within a size, and the gallery that ships with the app.

Links out of the user's folder are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.catalog import ASSETS
from engine.errors import SafelightError
from engine.files import private_folder, read_json
from engine.trace.format import SUFFIX

BUDGET_BYTES = 2 * 10**9
NEWEST = 50  # traces that are never removed
GALLERY = ASSETS / "traces"
GALLERY_LIST = "gallery.json"


def trace_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the traces in a folder, which need not exist: regular files only, no links, pipes or folders."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # it was just removed
                if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def make_private(folder: Path) -> None:
    """Makes the folder of traces, and removes other users' rights, which older versions gave, on it and its traces.

    Raises:
        OSError: it cannot be made.
    """
    private_folder(folder)
    if os.name == "nt":  # on Windows rights are inherited from the user's own folder
        return
    with suppress(OSError):  # the folder may belong to another user
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    for path, status in trace_files(folder):
        if status.st_mode & 0o077:
            with suppress(OSError):
                path.chmod(0o600)


def prune_traces(folder: Path, budget: int = BUDGET_BYTES, newest: int = NEWEST) -> int:
    """Removes the oldest traces of a folder until the rest is within ``budget`` bytes; never the ``newest`` ones.

    A trace that cannot be removed stays. A missing folder needs no pruning.

    Returns:
        The number of removed traces.
    """
    found = sorted((status.st_mtime_ns, str(path), status.st_size) for path, status in trace_files(folder))
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


@dataclass(frozen=True)
class GalleryTrace:
    """A trace that ships with the app: its title, and a note on what to watch in it."""

    path: Path
    title: str
    note: str


def gallery(folder: Path = GALLERY) -> tuple[GalleryTrace, ...]:
    """Returns the traces of the gallery, in order.

    Raises:
        SafelightError: its list is missing or damaged.
    """
    listed: Any = read_json(folder / GALLERY_LIST).get("traces")
    try:
        return tuple(GalleryTrace(folder / str(one["file"]), str(one["title"]), str(one["note"])) for one in listed)
    except (TypeError, KeyError) as error:
        raise SafelightError(f"{folder / GALLERY_LIST} is damaged ({error!r}); install Safelight again") from error
