"""The library's tables.

A message has a parent, so a conversation is a tree. The shown one of several siblings is stored with their parent
(``child_shown``), or with the conversation if they have none. So exactly one is shown, and a message that is removed
and put back is shown again. Ids are never reused.

Triggers fill the search indexes, so every write updates them. An answer is indexed only once it has ended, since a
draft changes at every denoising step. ``drop_removed`` takes removed messages out of the index and ``index_put_back``
adds them again: no trigger of this version handles removals, and a new trigger would make a new version, which earlier
Safelights do not open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache

APPLICATION_ID = 0x5AFE1167  # in the file's header; marks it as a Safelight library

SCHEMA = (
    """CREATE TABLE conversations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0,
        system_prompt TEXT NOT NULL DEFAULT '',
        preset TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        child_shown INTEGER,
        deleted REAL  -- when it was deleted; until it is purged that can be undone
    )""",
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        parent INTEGER,
        child_shown INTEGER,
        removed INTEGER,  -- the message whose removal took this one along, perhaps itself
        removed_at REAL,
        created REAL NOT NULL,
        role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
        status TEXT NOT NULL CHECK (status IN ('waiting', 'developing', 'done', 'stopped', 'failed')),
        seed INTEGER,
        model TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '',
        figures TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '',
        content TEXT NOT NULL DEFAULT '',
        thinking TEXT NOT NULL DEFAULT '',
        attachments TEXT NOT NULL DEFAULT '',  -- JSON, pairs of name and text
        UNIQUE (conversation, id),
        -- Without a cascade: SQLite follows one no deeper than a thousand messages.
        FOREIGN KEY (conversation, parent) REFERENCES messages (conversation, id)
    )""",
    "CREATE INDEX messages_by_parent ON messages (conversation, parent)",
    "CREATE INDEX messages_unfinished ON messages (status) WHERE status IN ('waiting', 'developing')",
    "CREATE INDEX messages_removed ON messages (removed) WHERE removed IS NOT NULL",
    "CREATE VIRTUAL TABLE title_index USING fts5 (title, tokenize = 'unicode61 remove_diacritics 2')",
    "CREATE VIRTUAL TABLE message_index USING fts5 (content, tokenize = 'unicode61 remove_diacritics 2')",
    """CREATE TRIGGER title_added AFTER INSERT ON conversations BEGIN
        INSERT INTO title_index (rowid, title) VALUES (new.id, new.title);
    END""",
    """CREATE TRIGGER title_changed AFTER UPDATE OF title ON conversations BEGIN
        UPDATE title_index SET title = new.title WHERE rowid = new.id;
    END""",
    """CREATE TRIGGER title_gone AFTER DELETE ON conversations BEGIN
        DELETE FROM title_index WHERE rowid = old.id;
    END""",
    """CREATE TRIGGER message_added AFTER INSERT ON messages WHEN new.status NOT IN ('waiting', 'developing') BEGIN
        INSERT INTO message_index (rowid, content) VALUES (new.id, new.content);
    END""",
    """CREATE TRIGGER message_changed AFTER UPDATE OF content, status ON messages
    WHEN new.status NOT IN ('waiting', 'developing')
        AND (new.content IS NOT old.content OR old.status IN ('waiting', 'developing'))
    BEGIN
        DELETE FROM message_index WHERE rowid = new.id;
        INSERT INTO message_index (rowid, content) VALUES (new.id, new.content);
    END""",
    """CREATE TRIGGER message_gone AFTER DELETE ON messages BEGIN
        DELETE FROM message_index WHERE rowid = old.id;
    END""",
)

VERSION = 1
"""Of the schema. A change of it is a new version, to which a file of this one must be brought."""


def version_of(connection: sqlite3.Connection) -> int:
    """Returns the version of a file; 0 if it is empty."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


Objects = frozenset[tuple[str, str, str | None]]
"""The objects in a schema: type, name and SQL of each."""

_SEARCH = ("title_index_", "message_index_")
"""Prefixes of the search indexes' internal tables, whose SQL depends on the SQLite that made them."""


def objects_of(connection: sqlite3.Connection) -> Objects:
    """Returns all objects in a file's schema, except statistics that SQLite may have gathered."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat_'").fetchall()
    return frozenset((kind, name, "" if str(name).startswith(_SEARCH) else sql) for kind, name, sql in rows)


@cache
def our_objects() -> Objects:
    """Returns exactly the objects in a library."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make(connection)
        return objects_of(connection)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Runs a transaction that locks for writing at its beginning, so that it can wait for another's end."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it itself if the disk is full
            connection.execute("ROLLBACK")
        raise


def make(connection: sqlite3.Connection) -> None:
    """Makes the tables in an empty file, completely or not at all; of two windows starting at once, only one does."""
    if version_of(connection):
        return
    with transaction(connection):
        for statement in () if version_of(connection) else SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


_INDEXED = {
    "title_index_content": "SELECT id FROM conversations",
    "message_index_content": (
        "SELECT id FROM messages WHERE status NOT IN ('waiting', 'developing') AND removed IS NULL"
    ),
}


def is_indexed(connection: sqlite3.Connection) -> bool:
    """Returns True if the search indexes have exactly the rows that they should; SQLite refuses changes of others."""
    return not any(
        connection.execute(f"{one} EXCEPT {other} LIMIT 1").fetchone()
        for index, rows in _INDEXED.items()
        for one, other in ((f"SELECT id FROM {index}", rows), (rows, f"SELECT id FROM {index}"))
    )


def drop_removed(connection: sqlite3.Connection, id: int | None = None) -> None:
    """Takes removed messages out of the search index: all of them, or only ``id`` if it is removed.

    Call it in each transaction that removes messages, or in which a trigger may have indexed a removed one.
    """
    only = "" if id is None else "AND id = ?"
    connection.execute(
        f"DELETE FROM message_index WHERE rowid IN (SELECT id FROM messages WHERE removed IS NOT NULL {only})",
        () if id is None else (id,),
    )


def index_put_back(connection: sqlite3.Connection, root: int) -> None:
    """Adds the messages of a removed branch to the search index; call it before they are marked as put back."""
    connection.execute(
        "INSERT OR REPLACE INTO message_index (rowid, content) SELECT id, content FROM messages "
        "WHERE removed = ? AND status NOT IN ('waiting', 'developing')",
        (root,),
    )


def index_again(connection: sqlite3.Connection) -> None:
    """Rebuilds the search indexes from the tables."""
    with transaction(connection):
        for statement in (statement for statement in SCHEMA if " USING fts5 " in statement):
            connection.execute(f"DROP TABLE {statement.split()[3]}")
            connection.execute(statement)
        connection.execute("INSERT INTO title_index (rowid, title) SELECT id, title FROM conversations")
        connection.execute(
            "INSERT INTO message_index (rowid, content) SELECT id, content FROM messages "
            "WHERE status NOT IN ('waiting', 'developing') AND removed IS NULL"
        )
