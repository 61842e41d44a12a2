"""Locks and claims as on Windows: a stand-in of ``msvcrt`` has its rules, over the locks that are here."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.system.locks import Claims, locked, take
from engine import SafelightError, windows


@pytest.fixture(params=["here", "as on Windows"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    def locking(handle: int, mode: int, count: int) -> None:
        assert (mode, count, os.lseek(handle, 0, os.SEEK_CUR)) == (2, 1, 0)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PermissionError(errno.EACCES, "Permission denied") from None  # as Windows says it

    unlink = Path.unlink

    def unlink_closed(path: Path, missing_ok: bool = False) -> None:
        """Windows removes no file that is open."""
        held = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
        if str(path) in held:
            raise PermissionError(errno.EACCES, "used by another process")
        unlink(path, missing_ok)

    if request.param != "here":
        monkeypatch.setattr(windows, "IS_WINDOWS", True)
        monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))  # type: ignore[arg-type]
        monkeypatch.setattr(Path, "unlink", unlink_closed)
    return str(request.param)


@pytest.mark.usefixtures("system")
def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "presets.lock"
    refused = pytest.raises(SafelightError, match="Another window is writing presets")
    with locked(path), refused, locked(path, 0.02):
        pass
    with locked(path):
        pass


@pytest.mark.usefixtures("system")
def test_a_claim_ends_and_leaves_nothing(tmp_path: Path) -> None:
    one, other = Claims(tmp_path), Claims(tmp_path)
    assert one.take(7)
    assert one.take(7)  # it is there already
    assert not other.take(7)
    assert other.take(8)
    other.release(8)
    assert other.of_others() == [7]
    one.release(7)
    assert other.take(7)
    other.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_causes_no_wait(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", unsupported)
    if system != "here":
        monkeypatch.setattr("msvcrt.locking", unsupported)
    with (tmp_path / "file").open("w") as file:
        assert take(file.fileno())
