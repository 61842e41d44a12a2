"""Which conversations this process is answering, so that another leaves their answers alone.

A claim is a lock of the operating system's on a small file beside the library. It ends with the process that holds it,
however that ends, so nothing stale can keep anybody out.
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
    """Claims on the conversations of one library; without a folder everything is this process's own."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[int, int] = {}  # conversation to file handle

    def take(self, conversation: int) -> bool:
        """Claim a conversation until ``release``; what is claimed here already stays so. False where another holds it.

        Where no file can be made or locked, as on a full disk, the claim is granted without one: what that leaves open
        is how another window shows an answer, not whether it is kept.
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
            os.close(handle)  # the one who held it before took the file away between our two calls
        return True

    def release(self, conversation: int) -> None:
        """Let others have it; does nothing where it is not claimed."""
        handle = self._held.pop(conversation, None)
        if handle is None:
            return
        if windows.IS_WINDOWS:  # which removes no open file
            os.close(handle)
        with contextlib.suppress(OSError):
            self._path(conversation).unlink()
        if not windows.IS_WINDOWS:  # which would let another lock the file first, and then lose it
            os.close(handle)

    def of_others(self) -> list[int]:
        """The conversations that other processes have claimed. What a killed one has left behind is cleared away."""
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
        """Release everything."""
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
