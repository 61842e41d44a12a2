"""Opens the library's file: made where it is missing, checked, brought to this version, set aside where damaged."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from app.library import schema
from app.library.errors import LibraryError, is_damage, primary_code

NAME = "library.sqlite"
BUSY_SECONDS = 0.1  # how long to wait for another window's transaction, which takes milliseconds; the GUI thread waits
OPENING_SECONDS = 0.8  # the same for all of the opening, which another window's beginning may hold up
COMPANIONS = ("", "-wal", "-shm", "-journal")  # SQLite's files beside the first
MAGIC = b"SQLite format 3\0"
WAL_MODE = 2  # at byte 18 of the header


@dataclass(frozen=True)
class Opened:
    """A connection ready for use, and where a damaged file was put that stood in its place."""

    connection: sqlite3.Connection
    aside: Path | None = None


class _DamagedError(Exception):
    """The file is no library, or no longer."""


def open_file(folder: Path) -> Opened:
    """Open ``folder/library.sqlite``, readable by its owner alone.

    Raises:
        LibraryError: the file is of a newer Safelight; it is left alone.
        sqlite3.Error, OSError: anything else that stands in the way.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    try:
        return Opened(_open_sound(path))
    except _DamagedError:
        aside = _set_aside(path)
        try:
            return Opened(_open_sound(path), aside)
        except _DamagedError as fault:
            raise LibraryError(f"no library can be made in {folder}. Choose another data folder") from fault


def open_in_memory() -> sqlite3.Connection:
    """A library that ends with the app."""
    connection = _connect(":memory:")
    schema.migrate(connection)
    return connection


def _connect(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)  # transactions are begun by hand
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = FAST")  # what is purged is overwritten where that costs nothing
    return connection


def wait_until(connection: sqlite3.Connection, ends: float) -> None:
    """Let the next statements wait for another's lock until ``ends`` on the monotonic clock."""
    left = max(0.0, ends - time.monotonic())
    connection.execute(f"PRAGMA busy_timeout = {round(left * 1000)}").close()


def is_held(fault: sqlite3.Error) -> bool:
    """Whether another connection's lock is in the way."""
    return primary_code(fault) == sqlite3.SQLITE_BUSY


def _open_sound(path: Path) -> sqlite3.Connection:
    ends = time.monotonic() + OPENING_SECONDS
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    if not has_header(path):
        raise _DamagedError("no database")
    connection = _connect(path)
    try:
        wait_until(connection, ends)
        _check(connection, path.parent)
        wait_until(connection, ends)
        _set_modes(connection)
        version = schema.version_of(connection)
        wait_until(connection, ends)
        if version < len(schema.STEPS):
            if version:
                _back_up(connection, path, version)
            schema.migrate(connection)
        _see_that_it_can_be_written(connection)
        wait_until(connection, time.monotonic() + BUSY_SECONDS)
    except sqlite3.DatabaseError as fault:
        connection.close()
        if is_damage(fault):
            raise _DamagedError(str(fault)) from fault
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def has_header(path: Path) -> bool:
    """Whether the file begins as a database, or is empty.

    SQLite must not see any other file: it deletes a write-ahead log that does not fit, and there the last messages are.
    """
    log = path.with_name(path.name + "-wal")
    has_log = log.exists() and log.stat().st_size > 0  # before the header: a file that is being made gets it first
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return not has_log
    return header.startswith(MAGIC) and (not has_log or header[18:19] == bytes([WAL_MODE]))


def _check(connection: sqlite3.Connection, folder: Path) -> None:
    """See that the file is a library, whole, and of a version that is known here."""
    tables = schema.tables_of(connection)
    if not tables:
        return
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    version = schema.version_of(connection)
    if owner == schema.APPLICATION_ID and version > len(schema.STEPS):
        raise LibraryError(f"the library in {folder} is from a newer Safelight. Update Safelight to open it")
    if owner != schema.APPLICATION_ID or not version or not tables >= schema.TABLES:
        raise _DamagedError("another program's file")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _DamagedError(verdict)


def _see_that_it_can_be_written(connection: sqlite3.Connection) -> None:
    """A file that cannot be written is better known now; one that is held at the moment is written later."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("DELETE FROM messages WHERE 0")  # of a read-only file SQLite complains no earlier
        finally:
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as fault:
        if not is_held(fault):
            raise


def _set_modes(connection: sqlite3.Connection) -> None:
    """Readers and a writer at once, and no wait for the disk at each denoising step.

    A kill loses nothing then; when the power goes, the last moments may be lost but the file stays whole.
    """
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.OperationalError as fault:
        if not is_held(fault):
            raise
        # Another window is at the file this moment. The mode is the file's own: that one has set it, or the next will.
    connection.execute("PRAGMA synchronous = NORMAL")


def _back_up(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Copy the file as it is, before a migration changes it."""
    copy = free_name(path.with_name(f"library-backup-v{version}-{_now()}.sqlite"))
    unfinished = copy.with_name(copy.name + ".part")
    try:
        target = sqlite3.connect(unfinished, isolation_level=None)
        try:
            connection.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file that stands for itself
        finally:
            target.close()
        unfinished.chmod(0o600)
        unfinished.replace(copy)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _set_aside(path: Path) -> Path:
    """Rename a damaged file with its companions; where another window was faster, there is nothing left to do."""
    aside = free_name(path.with_name(f"library-damaged-{_now()}.sqlite"))
    for companion in COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + companion).rename(aside.with_name(aside.name + companion))
    return aside


def free_name(path: Path) -> Path:
    """The path, with a number where there is such a file already."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def _now() -> str:
    return time.strftime("%Y%m%d-%H%M%S")
