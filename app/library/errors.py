"""Turns the error codes of SQLite and the system into sentences about the library."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine import SafelightError


class LibraryError(SafelightError):
    """The library could not be read or written. Its earlier content is unchanged."""


class GoneError(LibraryError):
    """The item to read or change no longer exists; trying again does not help."""


_DISK_FULL = "the disk is full, so the library in {folder} cannot be written. Free some space, then try again"
_NO_RIGHT = "the library in {folder} cannot be opened. Allow reading and writing there, then try again"
_HELD = "another program uses the library in {folder}. Close that program, then try again"
_DAMAGED = "the library in {folder} is damaged. Restart Safelight: it makes a new search index, or sets the file aside"
_SAYINGS = {
    sqlite3.SQLITE_FULL: _DISK_FULL,
    sqlite3.SQLITE_READONLY: "the library in {folder} cannot be written. Allow writing there or choose another folder",
    sqlite3.SQLITE_PERM: _NO_RIGHT,
    sqlite3.SQLITE_CANTOPEN: _NO_RIGHT,
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_LOCKED: _HELD,
    sqlite3.SQLITE_IOERR: "the disk with the library in {folder} failed. Check that it is connected, then try again",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_NOMEM: "too little memory is free for the library in {folder}. Close other programs, then try again",
}
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_HINDRANCES = _SAYINGS.keys() - _DAMAGE


def primary_code(fault: sqlite3.Error) -> int | None:
    """Returns SQLite's primary result code; None if Python itself raised the error."""
    code: int | None = getattr(fault, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_damage(fault: sqlite3.Error) -> bool:
    return primary_code(fault) in _DAMAGE


def is_hindrance(fault: sqlite3.Error) -> bool:
    """Returns True if the system or another program caused the error, and not the file's content."""
    return primary_code(fault) in _HINDRANCES


@contextmanager
def explained(folder: Path | str) -> Iterator[None]:
    """Turns errors of SQLite and of the file system into a ``LibraryError``; lets programming errors pass."""
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
