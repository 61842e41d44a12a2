"""Reads what can be read of a damaged library, without changing it."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.language import tr
from app.library.opening import has_header
from app.library.records import ROLES, STATUSES, StoredMessage, Summary, Whole
from app.library.rows import MESSAGE_COLUMNS, SUMMARY_COLUMNS, message_of, summary_of, with_shown

_NUMBERS = ("id", "conversation", "parent", "seed", "created", "updated", "pinned", "child_shown")


def read(path: Path) -> list[Whole]:
    """The conversations of a damaged file with what is left of them; empty where nothing can be read.

    Messages whose conversation is lost are gathered in conversations of their own; one whose parent is lost follows the
    last message before it that is left.
    """
    if not has_header(path):
        return []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1.0)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            summaries = _read_summaries(connection)
            messages, wanted = _read_messages(connection)
    except sqlite3.Error:
        return []
    for id in sorted(messages.keys() - summaries.keys()):
        created = messages[id][0].created
        summaries[id] = (Summary(id, tr("Saved from a damaged library"), created, created), None)
    wholes: list[Whole] = []
    for id, (summary, first) in summaries.items():
        mended = _mended(messages.get(id, []))
        wholes.append(Whole(summary, tuple(with_shown(mended, {**wanted, None: first}))))
    return wholes


def _read_summaries(connection: sqlite3.Connection) -> dict[int, tuple[Summary, int | None]]:
    read: dict[int, tuple[Summary, int | None]] = {}
    for row in _rows(connection, "conversations", f"{SUMMARY_COLUMNS}, child_shown", "deleted"):
        if _is_sound(row, f"{SUMMARY_COLUMNS}, child_shown", optional=("child_shown",)):
            summary = summary_of(row[:-1])
            read[summary.id] = (summary, row[-1])
    return read


def _read_messages(
    connection: sqlite3.Connection,
) -> tuple[dict[int, list[StoredMessage]], dict[int | None, int | None]]:
    read: dict[int, list[StoredMessage]] = {}
    wanted: dict[int | None, int | None] = {}
    columns = f"{MESSAGE_COLUMNS}, child_shown"
    for row in _rows(connection, "messages", columns, "removed"):
        if not _is_sound(row, columns, optional=("parent", "seed", "child_shown")):
            continue
        try:
            message = message_of(row[:-1])
        except (ValueError, TypeError):  # its attachments
            continue
        if message.role in ROLES and message.status in STATUSES:
            read.setdefault(message.conversation, []).append(message)
            wanted[message.id] = row[-1]
    return read, wanted


def _rows(connection: sqlite3.Connection, table: str, columns: str, gone: str) -> list[tuple[Any, ...]]:
    """Rows from both ends of a table up to where it cannot be read, in the order of their identities."""
    place = columns.split(", ").index("id")
    found: dict[object, tuple[Any, ...]] = {}
    for order in ("ASC", "DESC"):
        try:
            for row in connection.execute(
                f"SELECT {columns} FROM {table} NOT INDEXED WHERE {gone} IS NULL ORDER BY rowid {order}"
            ):
                if row[place] in found:
                    break
                found[row[place]] = row
        except sqlite3.DatabaseError:
            continue
    return [found[id] for id in sorted(id for id in found if isinstance(id, int))]


def _is_sound(row: tuple[Any, ...], columns: str, optional: tuple[str, ...]) -> bool:
    for name, value in zip(columns.split(", "), row, strict=True):
        if value is None:
            if name not in optional:
                return False
        elif name in _NUMBERS:
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                return False
        elif not isinstance(value, str):
            return False
    return True


def _mended(messages: list[StoredMessage]) -> list[StoredMessage]:
    here: list[int] = []
    mended: list[StoredMessage] = []
    for message in messages:
        if message.parent is not None and message.parent not in here:
            message = replace(message, parent=here[-1] if here else None)
        here.append(message.id)
        mended.append(message)
    return mended
