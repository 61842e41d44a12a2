"""Reads the library's file, and provides transactions and shared statements."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path

from app.library import opening, schema
from app.library.errors import GoneError, LibraryError, explained
from app.library.pictures import FOLDER, PictureStore
from app.library.records import (
    MESSAGE_COLUMNS,
    SUMMARY_COLUMNS,
    UNFINISHED,
    NewMessage,
    StoredMessage,
    Summary,
    Whole,
    insert_message,
    insert_row,
    message_of,
    summary_of,
    with_shown,
)
from app.library.search import look_up
from engine.files import storable

GONE = "this conversation was deleted in another window. Choose another one"
GONE_MESSAGE = "this message was deleted in another window. Open the conversation again"

MAX_MESSAGES = 12_000
"""Most messages that are read at once, in some 0.4 s: those that a file can import, and room for more."""
PIECE_MESSAGES, PIECE_CHARACTERS = 100, 200_000  # limits of ``pieces``; writing one takes about 20 ms
NEW_FIELDS = tuple(field.name for field in fields(NewMessage))
BRANCH = """WITH RECURSIVE branch (id) AS (
    VALUES (?) UNION SELECT messages.id FROM messages JOIN branch ON messages.parent = branch.id
)"""
"""SQL for a message and all its descendants; its parameter is the message's id."""


class Store:
    """An open library file, used from one thread. Methods raise ``LibraryError`` if it cannot be read or written."""

    def __init__(self, connection: sqlite3.Connection, folder: Path | None, clock: Callable[[], float]) -> None:
        self.folder = folder  # None for a library in memory
        self.pictures = PictureStore(None if folder is None else folder / FOLDER)
        self._connection = connection
        self._place = folder or "memory"
        self._patient_until: float | None = None  # on the monotonic clock
        self.now = clock  # seconds since 1970
        self._version = 0  # of what other processes wrote, at the last look

    def is_changed(self) -> bool:
        """Returns True if another process has written since the last call."""
        before = self._version
        with explained(self._place):
            self._version = int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        return self._version != before

    @contextmanager
    def patient(self, seconds: float) -> Iterator[None]:
        """Lets all writes within wait up to ``seconds`` in total for a lock; else each waits ``BUSY_SECONDS``."""
        self._patient_until = time.monotonic() + seconds
        try:
            yield
        finally:
            self._patient_until = None
            with suppress(sqlite3.ProgrammingError):  # it was closed
                opening.wait_until(self._connection, time.monotonic() + opening.BUSY_SECONDS)

    def summaries(self, query: str = "") -> list[Summary]:
        """Returns the conversations, pinned ones first, then the latest; with a query only those that match it."""
        with explained(self._place):
            return look_up(self._connection, query)

    def conversation(self, id: int) -> Summary:
        """Returns a conversation without its messages. Raises GoneError if it was deleted."""
        with explained(self._place):
            row = self._connection.execute(
                f"SELECT {SUMMARY_COLUMNS} FROM conversations WHERE id = ? AND deleted IS NULL", (id,)
            ).fetchone()
        if row is None:
            raise GoneError(GONE)
        return summary_of(row)

    def whole(self, id: int) -> Whole:
        """Returns a conversation with all its messages. Raises also as ``messages``."""
        with explained(self._place), self._reading():
            return Whole(self.conversation(id), tuple(self.messages(id)))

    def reading(self, id: int) -> Generator[None, None, Callable[[], Whole]]:
        """Reads a conversation of any length as ``whole``, in steps of a few milliseconds.

        Returns a function that builds the result; it takes longer, but needs no database and may run in any thread.
        """
        messages: list[StoredMessage] = []
        shown_children: dict[int | None, int | None] = {}
        piece = -1
        while piece:
            with explained(self._place), self._reading():
                piece = self._read_some(id, messages, shown_children, PIECE_MESSAGES)
            yield
        summary = self.conversation(id)
        return lambda: Whole(summary, tuple(with_shown(messages, shown_children)), self.pictures.of(messages))

    def messages(self, conversation: int) -> list[StoredMessage]:
        """Returns all messages of a conversation that were not removed, oldest first; ``parent`` makes them a tree.

        Raises ``LibraryError`` also if there are more than ``MAX_MESSAGES``.
        """
        messages: list[StoredMessage] = []
        shown_children: dict[int | None, int | None] = {}
        with explained(self._place), self._reading():
            count = self._connection.execute(
                "SELECT count(*) FROM messages WHERE conversation = ? AND removed IS NULL", (conversation,)
            ).fetchone()[0]
            if count > MAX_MESSAGES:
                raise LibraryError(
                    f"this conversation has {count:,} messages; up to {MAX_MESSAGES:,} can be opened. "
                    "To read it, export it as Markdown or HTML from the list of conversations"
                )
            self._read_some(conversation, messages, shown_children, count)
        return with_shown(messages, shown_children)

    def _read_some(
        self, conversation: int, messages: list[StoredMessage], shown_children: dict[int | None, int | None], most: int
    ) -> int:
        """Appends the next messages, at most ``most``, and the shown child of each; returns their number."""
        if not messages:
            first = self._connection.execute("SELECT child_shown FROM conversations WHERE id = ?", (conversation,))
            shown_children[None] = next((shown for (shown,) in first), None)
        rows = self._connection.execute(
            f"SELECT {MESSAGE_COLUMNS}, child_shown FROM messages "
            "WHERE conversation = ? AND removed IS NULL AND id > ? ORDER BY id LIMIT ?",
            (conversation, messages[-1].id if messages else -(2**63), most),
        ).fetchall()
        shown_children |= {row[-2]: row[-1] for row in rows}
        messages += [message_of(row[:-1]) for row in rows]
        return len(rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Runs a transaction, with errors as sentences."""
        with explained(self._place):
            if self._patient_until is not None:
                opening.wait_until(self._connection, self._patient_until)
            with schema.transaction(self._connection):
                yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Lets several queries see one state of the file."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _insert(self, summary: Summary) -> int:
        return insert_row(self._connection, "conversations", SUMMARY_COLUMNS.removeprefix("id, "), vars(summary))

    def _insert_all(
        self, conversation: int, messages: Iterable[StoredMessage], new_ids: dict[int | None, int | None]
    ) -> None:
        """Adds messages, parents before their children; ``given`` maps old ids to new ones."""
        for message in messages:
            new = {name: getattr(message, name) for name in NEW_FIELDS}
            new["parent"] = new_ids.get(message.parent)
            if message.status in UNFINISHED:
                new["status"] = "stopped"
            new_ids[message.id] = id = self._insert_message(conversation, message.created, NewMessage(**new))
            if message.shown:
                self._put_on_show(conversation, new["parent"], id)

    def _insert_message(self, conversation: int, created: float, message: NewMessage) -> int:
        """Adds a message after its pictures. Within the transaction, so that no other window sweeps meanwhile."""
        for picture in message.pictures:
            self.pictures.renew(picture.digest)
        return insert_message(self._connection, conversation, created, message)

    def _put_on_show(self, conversation: int, parent: int | None, id: int) -> None:
        if parent is None:
            self._connection.execute("UPDATE conversations SET child_shown = ? WHERE id = ?", (id, conversation))
        else:
            self._connection.execute("UPDATE messages SET child_shown = ? WHERE id = ?", (id, parent))

    def _set(self, table: str, id: int, gone: str, columns: Mapping[str, object]) -> None:
        stored = {
            name: storable(value) if isinstance(value, str) else value
            for name, value in columns.items()
            if value is not None
        }
        if stored:
            changes = ", ".join(f"{name} = ?" for name in stored)
            with self._writing():
                self._change_one(f"UPDATE {table} SET {changes} WHERE id = ?", (*stored.values(), id), gone)
                if table == "messages":
                    schema.drop_removed(self._connection, id)  # an answer may end after its removal

    def _change_one(self, statement: str, values: tuple[object, ...], gone: str) -> None:
        if not self._connection.execute(statement, values).rowcount:
            raise GoneError(gone)


def pieces(messages: Iterable[StoredMessage]) -> Iterator[list[StoredMessage]]:
    """Yields messages in batches that are quick to write, limited by number and by total characters."""
    piece: list[StoredMessage] = []
    characters = 0
    for message in messages:
        characters += len(message.content) + len(message.thinking)
        if piece and (len(piece) == PIECE_MESSAGES or characters > PIECE_CHARACTERS):
            yield piece
            piece, characters = [], len(message.content) + len(message.thinking)
        piece.append(message)
    if piece:
        yield piece
