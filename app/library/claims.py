"""Claims on conversations that a process is answering, so that other processes leave their answers alone.

A claim is an operating system lock on a small file next to the library. It ends with the process that holds it, even
if that is killed, so no stale claim can block anybody.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from app.system import locks
from engine import windows

ATTEMPTS = 10
_NAME = re.compile(r"library-answering-([0-9]{1,18})\.lock")


class Claims:
    """Claims on the conversations of one library; without a folder, all belong to this process."""

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
            if not locks.take(handle):
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
        found: list[int] = []
        with contextlib.suppress(OSError):
            for path in self._folder.glob("library-answering-*.lock") if self._folder is not None else ():
                named = _NAME.fullmatch(path.name)
                if named is None or int(named[1]) in self._held:
                    continue
                conversation = int(named[1])
                if self.take(conversation):
                    self.release(conversation)
                else:
                    found.append(conversation)
        return found

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
