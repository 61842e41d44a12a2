"""Reads the readable rows of a damaged library without changing it.

Only the rows of the file are trusted. The file is read into memory with the pages of its write-ahead log. Its first
page, which holds the header and the schema, is replaced by one of ours, in which the two tables have no triggers,
conditions or indexes. So no header, schema, view or trigger in the file can hide rows or have any effect.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.library import schema
from app.library.mending import Row, SalvagedRows, found, mended
from app.library.opening import LONGEST_STATEMENT, MAGIC, MOST_SCHEMA_STEPS, readable
from app.library.records import Whole
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.files import open_regular

LARGEST_FILE = 400 * 2**20  # bytes; reading takes twice as much memory
READ_SECONDS = 2.0  # processor time after which no more rows are read; enough for some 50 MB
PAGE_SIZES = (4096, 1024, 2048, 8192, 16384, 32768, 65536)  # bytes; the first is SQLite's default
TABLES = ("conversations", "messages")
LARGEST_ROWID = 2**63 - 1

Roots = dict[str, int]  # first page of each table


@dataclass(frozen=True)
class Salvaged:
    """The conversations that were read, latest first; ``is_all`` is False if reading everything took too long."""

    wholes: tuple[Whole, ...] = ()
    is_all: bool = True


def notice_of(salvaged: Salvaged, name: str) -> str:
    """Returns the message for the user; ``name`` is the damaged file's new name."""
    count = len(salvaged.wholes)
    if count:
        said = trn(
            "The library was damaged. It is kept as {name}. {count} conversation could be read and is here.",
            "The library was damaged. It is kept as {name}. {count} conversations could be read and are here.",
            count,
            name=name,
        )
    else:
        said = tr(
            "The library was damaged and nothing in it could be read. It is kept as {name}; a new one was made.",
            name=name,
        )
    if salvaged.is_all:
        return said
    return said + " " + tr("Reading all of it would have taken too long: the rest is in that file.")


def read(path: Path) -> Salvaged:
    """Returns the readable conversations of a damaged file; none if nothing can be read."""
    data = _with_log(_bytes(path), _bytes(path.with_name(path.name + "-wal")))
    if path.is_file() and path.stat().st_size > LARGEST_FILE:
        return Salvaged(is_all=False)
    ends = time.thread_time() + READ_SECONDS
    best = SalvagedRows()
    for size in _page_sizes(data):
        said, usual = _roots_in(data, size), schema.roots()
        for roots in [said, usual] if said != usual else [usual]:
            rows = _read(data, size, roots, ends)
            if len(rows.messages) + len(rows.conversations) > len(best.messages) + len(best.conversations):
                best = rows
        if best != SalvagedRows() or time.thread_time() > ends:
            break
    return Salvaged(mended(best), time.thread_time() <= ends)


def _bytes(path: Path) -> bytearray:
    """Reads a file; returns nothing if it cannot be read or is larger than ``LARGEST_FILE``."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return bytearray(file.read(size) if size <= LARGEST_FILE else b"")
    except (OSError, SafelightError):
        return bytearray()


def _with_log(data: bytearray, log: bytearray) -> bytearray:
    """Returns a file with the pages of its write-ahead log applied, up to the last committed transaction.

    Format: https://sqlite.org/fileformat2.html#walformat. Frames from an earlier use of the log have other salts.
    Checksums are not verified, to save as much as possible of a damaged file.
    """
    if len(log) < 32 or struct.unpack_from(">I", log)[0] & ~1 != 0x377F0682:
        return data
    size, salts = struct.unpack_from(">I", log, 8)[0], log[16:24]
    if size not in PAGE_SIZES:
        return data
    frames = []
    ended = 0
    for start in range(32, len(log) - size - 23, size + 24):
        page, pages = struct.unpack_from(">II", log, start)
        if log[start + 8 : start + 16] != salts:
            break
        frames.append((page, start + 24))
        ended = len(frames) if pages else ended
    highest = len(data) // size + len(frames)  # larger page numbers are invalid
    for page, start in frames[:ended]:
        if 0 < page <= highest:
            data.extend(bytes(max(0, page * size - len(data))))
            data[(page - 1) * size : page * size] = log[start : start + size]
    return data


def _page_sizes(data: bytearray) -> list[int]:
    """Returns the page sizes to try: that in the header first, others in case it finds no rows."""
    said = struct.unpack_from(">H", data, 16)[0] if len(data) > 100 else 0
    said = 65536 if said == 1 else said
    return sorted(PAGE_SIZES, key=lambda size: size != said)


def _header(size: int, pages: int) -> bytes:
    """Returns a database header (100 bytes) in rollback mode, as this SQLite would write it."""
    kept = struct.pack(">4I", 1, pages, 0, 0)  # change counter, pages, free pages
    rest = struct.pack(">6I", 1, 4, 0, 0, 1, 0)  # schema cookie and format, cache, vacuum, UTF-8, user version
    pages_for = struct.pack(">2I", 1, sqlite3.sqlite_version_info[0] * 1_000_000)
    start = MAGIC + struct.pack(">H6B", size & 0xFFFF or 1, 1, 1, 0, 64, 32, 32)
    return start + kept + rest + bytes(28) + pages_for


def _roots_in(data: bytearray, size: int) -> Roots:
    """Returns the first pages of the tables, as far as the file's own schema can be read."""
    pages = len(data) // size
    roots: Roots = {}
    with closing(_connected(data, _header(size, pages))) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # treats an unreadable schema as empty
        connection.set_progress_handler(lambda: True, MOST_SCHEMA_STEPS)
        for _ in range(2):  # only the first statement fails on errors in the schema
            try:
                for name, root in connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"):
                    if name in TABLES and isinstance(root, int) and 1 < root <= pages:
                        roots[name] = root
            except (sqlite3.Error, UnicodeError):  # UnicodeError: an undecodable message that quotes the schema
                continue
            break
    return roots


def _connected(data: bytearray, start: bytes) -> sqlite3.Connection:
    """Opens the data as a database in memory, with its beginning replaced by ``start``."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.text_factory = readable
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, LONGEST_STATEMENT)
    connection.execute("PRAGMA trusted_schema = OFF")
    kept, data[: len(start)] = data[: len(start)], start
    connection.deserialize(data)
    data[: len(start)] = kept
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(len(data), LONGEST_STATEMENT))
    return connection


def _read(data: bytearray, size: int, roots: Roots, ends: float) -> SalvagedRows:
    if any(roots.get(table, LARGEST_ROWID) * size > len(data) for table in TABLES):
        return SalvagedRows()
    with closing(_connected(data, _first_page(size, len(data) // size, roots))) as connection:
        connection.set_progress_handler(lambda: time.thread_time() > ends, 10_000)
        return found(*(_rows(connection, table, len(data), ends) for table in TABLES))


def _first_page(size: int, pages: int, roots: Roots) -> bytes:
    """Returns a first page whose schema has only our two tables, without constraints, at the pages in ``roots``."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {size}")
        for table in TABLES:
            id, *others = schema.columns(table)
            connection.execute(f"CREATE TABLE {table} ({id} INTEGER PRIMARY KEY, {', '.join(others)})")
        connection.execute("PRAGMA writable_schema = ON")
        for table in TABLES:
            connection.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (roots[table], table))
        page = connection.serialize()[:size]
    return _header(size, pages) + page[100:]


def _rows(connection: sqlite3.Connection, table: str, most: int, ends: float) -> Iterator[Row]:
    """Returns the readable rows of a table in the order of their ids, read from both ends around damaged parts.

    Their total size is limited to ``most`` bytes, the file's size, since a damaged file may use a page in several rows.
    """
    columns = schema.columns(table)
    read: dict[int, tuple[object, ...]] = {}
    for forward in (True, False):
        sign, order = (">=", "ASC") if forward else ("<=", "DESC")
        statement = f"SELECT {', '.join(columns)} FROM {table} WHERE id {sign} ? ORDER BY id {order}"
        place, step = 0 if forward else LARGEST_ROWID, 1
        while 0 <= place <= LARGEST_ROWID and most > 0 and time.thread_time() < ends:
            last = None
            try:
                for row in connection.execute(statement, (place,)):
                    if last is not None and (row[0] > last) != forward:
                        raise sqlite3.DatabaseError("rows out of order")
                    last = row[0]
                    if last not in read:
                        most -= sum(len(value) for value in row if isinstance(value, (str, bytes)))
                        if most < 0:
                            break
                        read[last] = row
                break
            except sqlite3.Error:
                if last is None and place == LARGEST_ROWID:
                    place = max(read, default=-1)  # the end is unreadable: go back from the last readable row
                    continue
                # Skip the damaged part, in steps from the last readable row that double each time.
                step = step * 2 if last is None else 1
                place = (place if last is None else last) + (step if forward else -step)
    return (dict(zip(columns, read[id], strict=True)) for id in sorted(read))
