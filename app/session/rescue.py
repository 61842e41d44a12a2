"""Writes conversations that could not be saved when the app ended to files, and imports them later. Knows no Qt.

The files are exports in the library's folder, or in the temporary folder if the library's disk is full.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from app.library import Library, Whole, transfer
from app.library.opening import free_name
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.files import is_plain_file, storable, write_text

NAME = "library-rescued-"
MOST_BYTES = 4 * 2**20  # imported at a start, which waits about 0.2 s for it


def write(library: Library, whole: Whole) -> Path:
    """Writes a conversation to a separate file and returns its path.

    Raises:
        SafelightError: it could not be written anywhere.
    """
    failure: SafelightError | None = None
    for folder in _folders(library):
        path = free_name(folder / f"{_prefix(library)}{time.strftime('%Y%m%d-%H%M%S')}.json")
        try:
            write_text(path, storable(transfer.to_json(whole)), private=True)
        except SafelightError as error:
            failure = failure or error
        else:
            return path
    assert failure is not None
    raise failure


def bring_in(library: Library) -> str:
    """Imports rescued files into the library. Returns a message for the user, empty if there were none.

    A file that cannot be imported now stays in place, and the message names it.
    """
    taken, left, size = 0, [], 0
    for path in _files(library):
        try:
            size += path.stat().st_size
            if size > MOST_BYTES:
                left.append(path)
                continue
            library.take(transfer.read_file(path))
            taken += 1
            path.unlink()
        except (SafelightError, OSError):
            left.append(path)
    messages = []
    if taken:
        messages.append(
            trn(
                "{count} conversation that could not be saved when Safelight closed has been restored.",
                "{count} conversations that could not be saved when Safelight closed have been restored.",
                taken,
            )
        )
    if left:
        names = ", ".join(str(path) for path in left[:3])
        messages.append(tr("What could not be saved when Safelight closed is in {names}. Import it.", names=names))
    return " ".join(messages)


def _prefix(library: Library) -> str:
    """Returns a file name prefix for a library, as several may share the temporary folder."""
    return f"{NAME}{zlib.crc32(os.fsencode(str(library.folder))):08x}-"


def _folders(library: Library) -> Iterator[Path]:
    if library.folder is not None:
        yield library.folder
    yield Path(tempfile.gettempdir())


def _files(library: Library) -> list[Path]:
    """Returns the files written by ``write``: regular files owned by the user."""
    found: list[Path] = []
    if library.folder is None:
        return found
    for folder in _folders(library):
        prefix = NAME if folder == library.folder else _prefix(library)  # the data folder may have been moved
        with contextlib.suppress(OSError):
            found += sorted(path for path in folder.glob(f"{prefix}*.json") if _is_ours(path))
    return found


def _is_ours(path: Path) -> bool:
    return is_plain_file(path) and (not hasattr(os, "getuid") or path.lstat().st_uid == os.getuid())
