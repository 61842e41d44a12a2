"""The tables of the library, version by version, and the way from one version to the next.

A message knows its parent, so a conversation is a tree. Which of several siblings is on show is kept by their parent
(``child_shown``), or by the conversation for those without one: it is always one, and a message that is removed and put
back finds its place again. Identities are never used twice.

The indexes for search are filled by triggers, so no way of writing can miss them, and only once an answer stands: a
draft changes at every denoising step. A removed message is taken out of its index by ``drop_removed`` and put in again
by ``index_put_back``: no trigger of this version knows of removals, and another trigger would be another version, which
an earlier Safelight does not open.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

APPLICATION_ID = 0x5AFE1167  # written into the file's header: whose it is

_FIRST = (
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

STEPS: tuple[tuple[str, ...], ...] = (_FIRST,)
"""Step n takes a file from version n to n + 1. A step that was ever released is never changed: another is added."""


def version_of(connection: sqlite3.Connection) -> int:
    """The version a file has; 0 where nothing is in it yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


Objects = frozenset[tuple[str, str, str | None]]
"""What a schema holds: type, name and SQL of each."""

_SEARCH = ("title_index_", "message_index_")
"""The tables within the indexes for search, whose SQL is that of the SQLite that made them."""


def objects_of(connection: sqlite3.Connection) -> Objects:
    """All that the schema of a file holds, beside the statistics that SQLite may have gathered."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat_'").fetchall()
    return frozenset((kind, name, "" if str(name).startswith(_SEARCH) else sql) for kind, name, sql in rows)


@cache
def objects_at(steps: tuple[tuple[str, ...], ...]) -> Objects:
    """What a file holds that those steps have made, and nothing else may be in it."""
    with closing(_made_by(steps)) as connection:
        return objects_of(connection)


@cache
def roots() -> dict[str, int]:
    """The page at which each table begins, as a fresh file has it; no table ever moves."""
    with closing(_made_by(STEPS)) as connection:
        return dict(connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"))


@cache
def columns(table: str) -> tuple[str, ...]:
    """The columns of a table as they stand in its rows."""
    with closing(_made_by(STEPS)) as connection:
        return tuple(name for _place, name, *_rest in connection.execute(f"PRAGMA table_info({table})"))


def _made_by(steps: tuple[tuple[str, ...], ...]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in (statement for step in steps for statement in step):
        connection.execute(statement)
    return connection


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the newest version, all of the way or not at all.

    The version is read again under the lock, so that of two windows that start at once only one does it.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in STEPS[version_of(connection) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(STEPS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_INDEXED = {
    "title_index_content": "SELECT id FROM conversations",
    "message_index_content": (
        "SELECT id FROM messages WHERE status NOT IN ('waiting', 'developing') AND removed IS NULL"
    ),
}


def is_indexed(connection: sqlite3.Connection) -> bool:
    """Whether the indexes for search have just the rows that they should have; of others SQLite refuses changes."""
    return not any(
        connection.execute(f"{one} EXCEPT {other} LIMIT 1").fetchone()
        for index, rows in _INDEXED.items()
        for one, other in ((f"SELECT id FROM {index}", rows), (rows, f"SELECT id FROM {index}"))
    )


def drop_removed(connection: sqlite3.Connection, id: int | None = None) -> None:
    """Take removed messages out of the index for search, or this one if it is removed.

    To be called in each transaction that removes messages, or in which a trigger may have put a removed one there.
    """
    only = "" if id is None else "AND id = ?"
    connection.execute(
        f"DELETE FROM message_index WHERE rowid IN (SELECT id FROM messages WHERE removed IS NOT NULL {only})",
        () if id is None else (id,),
    )


def index_put_back(connection: sqlite3.Connection, root: int) -> None:
    """Put into the index for search what the removal of a message took along; before it counts as put back."""
    connection.execute(
        "INSERT OR REPLACE INTO message_index (rowid, content) SELECT id, content FROM messages "
        "WHERE removed = ? AND status NOT IN ('waiting', 'developing')",
        (root,),
    )


def index_again(connection: sqlite3.Connection) -> None:
    """Make the indexes for search anew from the tables."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in (statement for step in STEPS for statement in step if " USING fts5 " in statement):
            connection.execute(f"DROP TABLE {statement.split()[3]}")
            connection.execute(statement)
        connection.execute("INSERT INTO title_index (rowid, title) SELECT id, title FROM conversations")
        connection.execute(
            "INSERT INTO message_index (rowid, content) SELECT id, content FROM messages "
            "WHERE status NOT IN ('waiting', 'developing') AND removed IS NULL"
        )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
