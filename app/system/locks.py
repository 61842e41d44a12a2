"""A file lock between the app's windows, which may be separate processes, and claims on conversations by such locks.

Knows no Qt.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
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


ATTEMPTS = 10
_NAME = re.compile(r"library-answering-([0-9]{1,18})\.lock")


class Claims:
    """Claims on the conversations that this process answers; without a folder, all belong to it.

    A claim is a lock on a small file next to the library. It ends with the process that holds it, even if that is
    killed, so no stale claim can block anybody.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[int, int] = {}  # file handle by conversation

    def take(self, conversation: int) -> bool:
        """Claims a conversation until ``release``. Returns False if another process holds it.

        A conversation that this process has claimed stays claimed. If no file can be made or locked, as on a full disk,
        the claim is granted without one: another window may then show an answer as stopped, but no text is lost.
        """
        if self._folder is None or conversation in self._held:
            return True
        path = self._path(conversation)
        for _ in range(ATTEMPTS):
            try:
                handle = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
            except OSError:
                return True
            if not take(handle):
                os.close(handle)
                return False
            if windows.IS_WINDOWS or self._is_at(path, handle):
                self._held[conversation] = handle
                return True
            os.close(handle)  # its former holder deleted the file between our two calls
        return True

    def release(self, conversation: int) -> None:
        """Releases a claim; does nothing without one."""
        handle = self._held.pop(conversation, None)
        if handle is None:
            return
        if windows.IS_WINDOWS:  # cannot delete an open file
            os.close(handle)
        with contextlib.suppress(OSError):
            self._path(conversation).unlink()
        if not windows.IS_WINDOWS:  # closed after deletion, else another process could lock a file about to be deleted
            os.close(handle)

    def of_others(self) -> list[int]:
        """Returns the conversations that other processes have claimed. Deletes the files of killed processes."""
        conversations: list[int] = []
        with contextlib.suppress(OSError):
            for path in self._folder.glob("library-answering-*.lock") if self._folder is not None else ():
                named = _NAME.fullmatch(path.name)
                if named is None or int(named[1]) in self._held:
                    continue
                conversation = int(named[1])
                if self.take(conversation):
                    self.release(conversation)
                else:
                    conversations.append(conversation)
        return conversations

    def close(self) -> None:
        for conversation in list(self._held):
            self.release(conversation)

    def _path(self, conversation: int) -> Path:
        assert self._folder is not None
        return self._folder / f"library-answering-{conversation}.lock"

    @staticmethod
    def _is_at(path: Path, handle: int) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(path.stat(), os.fstat(handle))
        return False
