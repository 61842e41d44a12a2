"""Opens the library's file: makes a missing one, checks it, renames a damaged one."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from app.library import schema
from app.library.errors import LibraryError, is_damage, is_hindrance, primary_code
from app.library.records import LARGEST_ID, LATEST, ROLES, STATUSES
from app.system.folders import free_name
from engine import SafelightError
from engine.files import is_plain_file, open_regular

NAME = "library.sqlite"
ASIDE = "library-damaged-*.sqlite"
BUSY_SECONDS = 0.1  # wait for another window's transaction, which takes milliseconds; blocks the GUI thread
OPENING_SECONDS = 0.4  # the same in total during opening, which another window's start may delay
COMPANIONS = ("", "-wal", "-shm", "-journal")  # suffixes of SQLite's files, the database's own first
MAGIC = b"SQLite format 3\0"
ROLLBACK_MODE, WAL_MODE = 1, 2  # at bytes 18 and 19 of the header
LONGEST_STATEMENT = 20_000  # characters; none of our statements, schema included, is longer than 2 000
MAX_SCHEMA_STEPS = 100_000  # SQLite's virtual machine steps to read a schema; ours takes a few hundred


class NoLibraryError(Exception):
    """The file is not a library, or is damaged."""


def connect(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)  # explicit transactions
    connection.text_factory = lambda data: data.decode("utf-8", "replace")  # its bytes may be damaged
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, LONGEST_STATEMENT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # what is erased or changed is overwritten, in a few microseconds
    return connection


def wait_until(connection: sqlite3.Connection, ends: float) -> None:
    """Lets the next statements wait for another connection's lock until ``ends`` on the monotonic clock."""
    left = max(0.0, ends - time.monotonic())
    connection.execute(f"PRAGMA busy_timeout = {round(left * 1000)}").close()


def is_held(fault: sqlite3.Error) -> bool:
    """Returns True if another connection's lock caused the error."""
    return primary_code(fault) == sqlite3.SQLITE_BUSY


def open_sound(path: Path) -> sqlite3.Connection:
    """Opens a library, readable only by its owner; makes a missing one, and rebuilds a damaged search index.

    Raises:
        NoLibraryError: the file is not a library, or is damaged.
        LibraryError: it is from a newer Safelight; it is not changed.
        sqlite3.Error, OSError: any other failure.
    """
    ends = time.monotonic() + OPENING_SECONDS
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    if not has_header(path):
        raise NoLibraryError("no database")
    connection = connect(path)
    try:
        wait_until(connection, ends)
        connection.execute("PRAGMA trusted_schema = OFF")
        _check(connection, path.parent)
        connection.execute("PRAGMA trusted_schema = ON")  # checked now; older versions of FTS5 need it in triggers
        wait_until(connection, ends)
        _set_modes(connection)
        wait_until(connection, ends)
        schema.make(connection)
        if not _is_searchable(connection):
            schema.index_again(connection)
        _see_that_it_can_be_written(connection)
        wait_until(connection, time.monotonic() + BUSY_SECONDS)
    except sqlite3.DatabaseError as fault:
        connection.close()
        if is_damage(fault):
            raise NoLibraryError(str(fault)) from fault
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def has_header(path: Path) -> bool:
    """Returns True if the file begins with a database header, or is empty.

    SQLite must not open any other file: it deletes a write-ahead log that does not match, with the latest messages.
    """
    companions = [path.with_name(path.name + companion) for companion in COMPANIONS[1:]]
    if any(os.path.lexists(file) and not is_plain_file(file) for file in companions):
        return False
    log = companions[0]
    has_log = log.exists() and log.stat().st_size > 0  # read before the header, which a new file gets first
    try:
        with open_regular(path) as file:
            header = file.read(100)
    except (SafelightError, FileNotFoundError):  # a folder, a pipe, a broken link
        return False
    if not header:
        return not has_log
    modes = set(header[18:20])
    return header.startswith(MAGIC) and (modes == {WAL_MODE} or (modes == {ROLLBACK_MODE} and not has_log))


def _check(connection: sqlite3.Connection, folder: Path) -> None:
    """Checks that the file is an undamaged library of a known version; accepts an empty one.

    Raises:
        NoLibraryError: it is not, or is damaged.
        LibraryError: it is from a newer Safelight.
    """
    connection.execute("BEGIN")  # one state of the file, since another window may be making or migrating it
    try:
        connection.set_progress_handler(lambda: True, MAX_SCHEMA_STEPS)
        objects = schema.objects_of(connection)
        connection.set_progress_handler(None, 0)
        if not objects:
            return
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        if owner == schema.APPLICATION_ID and schema.version_of(connection) > schema.VERSION:
            raise LibraryError(f"the library in {folder} is from a newer Safelight. Update Safelight to open it")
        if owner != schema.APPLICATION_ID or objects != schema.our_objects():
            raise NoLibraryError("another program's file")
        checks = (f"PRAGMA integrity_check({table})" for table in ("conversations", "messages"))
        for look in (*checks, "PRAGMA foreign_key_check", *_UNSOUND):
            row = connection.execute(look).fetchone()
            if row not in (None, ("ok",)):
                raise NoLibraryError(f"{look}: {row}")
    except sqlite3.Error as fault:
        if is_hindrance(fault):
            raise
        raise NoLibraryError(str(fault)) from fault
    except UnicodeError as fault:  # Python could not decode SQLite's message, which quotes the schema
        raise NoLibraryError("a schema that is no text") from fault
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_searchable(connection: sqlite3.Connection) -> bool:
    """Returns True if the search indexes are whole and have exactly the rows that they should."""
    try:
        for index in ("title_index", "message_index"):
            connection.execute(f"SELECT rowid FROM {index} WHERE {index} MATCH 'a' LIMIT 1").fetchone()
            if connection.execute(f"PRAGMA integrity_check({index})").fetchone() != ("ok",):
                return False
        return schema.is_indexed(connection)
    except sqlite3.DatabaseError as fault:
        if is_hindrance(fault):
            raise
        return False


def _is(kind: str, *columns: str) -> str:
    return " AND ".join(f"typeof({column}) = '{kind}'" for column in columns)


def _is_time(column: str) -> str:
    return f"typeof({column}) IN ('real', 'integer') AND {column} BETWEEN 0 AND {LATEST}"


def _or_none(column: str, condition: str) -> str:
    return f"({column} IS NULL OR {condition})"


_UNSOUND = (
    f"""SELECT id FROM conversations WHERE NOT (
        id BETWEEN 1 AND {LARGEST_ID} AND {_is("text", "title", "system_prompt", "preset", "model")}
        AND {_is_time("created")} AND {_is_time("updated")} AND {_is("integer", "pinned")}
        AND {_or_none("child_shown", _is("integer", "child_shown"))} AND {_or_none("deleted", _is_time("deleted"))})""",
    f"""SELECT id FROM messages WHERE NOT (
        id BETWEEN 1 AND {LARGEST_ID} AND {_is_time("created")} AND role IN {ROLES} AND status IN {STATUSES}
        AND {_is("text", "model", "settings", "figures", "error", "content", "thinking", "attachments")}
        AND {_or_none("parent", "parent < id AND " + _is("integer", "parent"))}
        AND {_or_none("seed", _is("integer", "seed"))}
        AND {_or_none("child_shown", _is("integer", "child_shown"))}
        AND {_or_none("removed", _is("integer", "removed") + " AND " + _is_time("removed_at"))})""",
    f"SELECT name FROM sqlite_sequence WHERE NOT ({_is('integer', 'seq')} AND seq BETWEEN 0 AND {LARGEST_ID})",
)
"""Queries for rows that the app never writes: with wrong types, or with a parent that comes after them."""


def _see_that_it_can_be_written(connection: sqlite3.Connection) -> None:
    """Checks that the file can be written. One that is locked at the moment is accepted and written later."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("DELETE FROM messages WHERE 0")  # SQLite reports a read-only file no earlier
        finally:
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as fault:
        if not is_held(fault):
            raise


def _set_modes(connection: sqlite3.Connection) -> None:
    """Sets WAL mode, for readers next to a writer and no wait for the disk at each denoising step.

    A kill loses nothing. A power failure may lose the last moments, but the file stays undamaged.
    """
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.OperationalError as fault:
        if not is_held(fault):
            raise
        # Another window is using the file. The mode is stored in it: that window has set it, or the next one will.
    connection.execute("PRAGMA synchronous = NORMAL")


def set_aside(path: Path) -> Path:
    """Renames a damaged file with its companions; returns its new path. A kill in between loses nothing."""
    aside = free_name(path.with_name(ASIDE.replace("*", time.strftime("%Y%m%d-%H%M%S"))))
    for companion in COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            moved = path.with_name(path.name + companion).rename(aside.with_name(aside.name + companion))
            if is_plain_file(moved):
                moved.chmod(0o600)
    return aside
