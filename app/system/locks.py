"""A file lock between the app's windows, which may be separate processes. Knows no Qt."""

from __future__ import annotations

import errno
import importlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.system.i18n import tr
from engine import SafelightError, windows

PAUSE = 0.01  # seconds between two attempts
_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # any other error means that the file system has no locks


@contextmanager
def locked(path: Path, seconds: float = 0.2) -> Iterator[None]:
    """Holds the lock of a file; the system releases it if the process is killed. The empty file stays.

    Raises:
        SafelightError: another window held it for all of ``seconds``.
        OSError: the file cannot be created.
    """
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags, 0o600)
    try:
        end = time.monotonic() + seconds
        while not take(handle):
            if time.monotonic() > end:
                raise SafelightError(tr("Another window is writing {path}. Try again in a moment.", path=path.stem))
            time.sleep(PAUSE)
        yield
    finally:
        os.close(handle)  # also releases the lock


def take(handle: int) -> bool:
    """Locks an open file until it is closed. Returns False if another process holds the lock."""
    try:
        (_lock_byte if windows.IS_WINDOWS else _flock)(handle)
    except OSError as fault:
        return fault.errno not in _HELD
    return True


def _flock(handle: int) -> None:
    fcntl: Any = importlib.import_module("fcntl")  # not on Windows
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_byte(handle: int) -> None:
    """Locks the first byte, which need not exist. Others cannot read a locked byte, so lock files stay empty."""
    msvcrt: Any = importlib.import_module("msvcrt")  # only on Windows
    os.lseek(handle, 0, os.SEEK_SET)
    msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
