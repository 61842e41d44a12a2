"""Two reasons for writing to fail: another process's lock, and a full disk.

The disk is a small tmpfs in a mount namespace of our own, filled by a file. Where that is not allowed, no file
of the process can be written to, by a limit on their size (EFBIG where a full disk says ENOSPC).
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
import sys
from pathlib import Path

DISK_BYTES = 24 * 2**20


class Locker:
    """Another process that locks a library."""

    SCRIPT = """
import sqlite3, sys
for line in sys.stdin:
    word, _, path = line.rstrip("\\n").partition(" ")
    if word == "hold":
        held = sqlite3.connect(path, isolation_level=None, timeout=5)
        try:
            held.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:  # the disk is full, too
            held.close()
            word = "failed"
    else:
        held.execute("ROLLBACK")
        held.close()
    print(word, flush=True)
"""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, folder: Path) -> bool:
        return self._send(f"hold {folder / 'library.sqlite'}") == "hold"

    def end(self) -> None:
        self._send("free")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _send(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise RuntimeError("the process that locks has ended")
        return answer


class FullDisk:
    """A file that takes all the room that is left."""

    name = "tmpfs"

    def __init__(self, disk: Path) -> None:
        self._ballast = disk / "ballast"

    def begin(self, _folder: Path) -> bool:
        for size in (2**16, 2**12, 1):
            with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
                while file.write(b"\1" * size) == size:
                    pass
        return True

    def end(self) -> None:
        self._ballast.unlink()


class NoLongerFiles:
    """No file of this process can be written to, whichever it is."""

    name = "RLIMIT_FSIZE"

    def begin(self, _folder: Path) -> bool:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        return True

    def end(self) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def mounted(disk: Path) -> bool:
    """Mounts a small disk of our own; False where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def can_have_a_namespace() -> bool:
    """True if a process of ours may mount a disk that no other sees."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
