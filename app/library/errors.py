"""The library's faults in words, from SQLite's codes and the system's."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine import SafelightError


class LibraryError(SafelightError):
    """The library could not be read or written. What it held before stands."""


class GoneError(LibraryError):
    """What was to be read or changed is no longer there; trying again does not help."""


class IndexDamagedError(LibraryError):
    """The index for search was damaged; it has been made anew, so that the same can be tried again."""


_DISK_FULL = "the disk is full, so the library in {folder} cannot be written. Free some space, then try again"
_NO_RIGHT = "the library in {folder} cannot be opened. Allow reading and writing there, then try again"
_HELD = "another program holds the library in {folder}. Close that program, then try again"
_DAMAGED = "the library in {folder} is damaged. Restart Safelight: it sets the file aside and saves what can be read"
_SAYINGS = {
    sqlite3.SQLITE_FULL: _DISK_FULL,
    sqlite3.SQLITE_READONLY: "the library in {folder} cannot be written. Allow writing there or choose another folder",
    sqlite3.SQLITE_PERM: _NO_RIGHT,
    sqlite3.SQLITE_CANTOPEN: _NO_RIGHT,
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_LOCKED: _HELD,
    sqlite3.SQLITE_IOERR: "the disk with the library in {folder} failed. See that it is connected, then try again",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_NOMEM: "memory is too short for the library in {folder}. Close other programs, then try again",
}
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_HINDRANCES = _SAYINGS.keys() - _DAMAGE


def primary_code(fault: sqlite3.Error) -> int | None:
    """SQLite's result code without its refinement; None where the fault is Python's own."""
    code: int | None = getattr(fault, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_damage(fault: sqlite3.Error) -> bool:
    """Whether the file itself is at fault."""
    return primary_code(fault) in _DAMAGE


def is_hindrance(fault: sqlite3.Error) -> bool:
    """Whether the system or another program stands in the way, and not what is in the file."""
    return primary_code(fault) in _HINDRANCES


@contextmanager
def explained(folder: Path | str) -> Iterator[None]:
    """Turn faults of SQLite and of the file system into a ``LibraryError``; programming errors pass."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError):
        raise
    except sqlite3.Error as fault:
        is_full = getattr(fault, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHMSIZE
        saying = _DISK_FULL if is_full else _SAYINGS.get(primary_code(fault) or -1)
        if saying is None:
            raise LibraryError(
                f"the library in {folder} failed ({fault}). Restart Safelight, then try again"
            ) from fault
        raise LibraryError(saying.format(folder=folder)) from fault
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LibraryError(_DISK_FULL.format(folder=folder)) from fault
        why = fault.strerror or str(fault)
        raise LibraryError(
            f"the library in {folder} cannot be used ({why}). Allow writing there or choose another data folder"
        ) from fault
