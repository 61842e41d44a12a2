"""A file that appears whole or not at all, and the system's refusals in a sentence. Knows no formats."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine import SafelightError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The name of an empty file beside ``path``, which takes its place at the end; on any failure it goes.

    Raises:
        SafelightError: the disk is full, or the folder is missing or cannot be written to.
    """
    beside = path.with_name(f".{path.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        try:
            with beside.open("xb"):  # so that the rights are those of any new file
                pass
            yield beside
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
    except OSError as fault:
        raise explained(fault, path) from fault


def explained(fault: OSError, path: Path) -> SafelightError:
    """What kept a file from being written, and what to do."""
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return SafelightError(f"the disk is full, so {path} was not written. Free some space, then try again")
    if fault.errno == errno.ENOENT:
        return SafelightError(f"there is no folder {path.parent}. Choose a folder that exists")
    why = fault.strerror or str(fault)
    return SafelightError(f"{path} cannot be written ({why}). Choose another place")
