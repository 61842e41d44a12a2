"""The conversations on disk. Every call is one short transaction: what has returned survives a kill."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path

from app.library import opening, salvage, schema
from app.library.claims import Claims
from app.library.errors import GoneError, IndexDamagedError, LibraryError, explained
from app.library.lookup import look_up
from app.library.records import UNFINISHED, NewMessage, Status, StoredMessage, Summary, Whole
from app.library.rows import (
    MESSAGE_COLUMNS,
    SUMMARY_COLUMNS,
    insert_message,
    message_of,
    storable,
    summary_of,
    with_shown,
)
from app.system.i18n import tr, trn
from engine.files import private_folder

UNDO_SECONDS = 60.0
"""How long ``purge`` leaves what another window has deleted and may still want back."""

INDEX_FAULTS = (sqlite3.SQLITE_CORRUPT_VTAB, sqlite3.SQLITE_CONSTRAINT)
"""What FTS5 says where its own tables do not go together; a constraint of our tables has a code of its own."""

TAKE_OVER_SECONDS = 1.0  # of work on what was salvaged before the library is open; the rest follows, see ``left``
MOST_MESSAGES = 12_000
"""That are read at once, in some 0.4 s: those that one file may bring (see ``transfer``), and room to go on."""
PIECE_MESSAGES, PIECE_CHARACTERS = 100, 200_000  # of ``Library.taking``; about 20 ms

_GONE = "this conversation was deleted in another window. Choose another one"
_GONE_MESSAGE = "this message was deleted in another window. Open the conversation again"
_NEW_FIELDS = tuple(field.name for field in fields(NewMessage))


class Library:
    """Used from one thread. ``notice`` is what the user should know of its opening, empty if nothing.

    Every method raises ``LibraryError`` where the file cannot be read or written: the disk is full, another program
    holds it, or the conversation was deleted in another window. Nothing is half written then.
    """

    def __init__(self, connection: sqlite3.Connection, folder: Path | None, clock: Callable[[], float]) -> None:
        self.notice = ""
        self.folder = folder  # None where it is forgotten at the end
        self.left: list[Whole] = []  # of a damaged library, still to be added: see ``taking_over``
        self.is_open = True
        self._connection = connection
        self._place = folder or "memory"
        self._claims = Claims(folder)
        self._patient_until: float | None = None  # on the monotonic clock
        self._clock = clock
        self._deleted: set[int] = set()
        self._removed: set[int] = set()

    @staticmethod
    def open(folder: Path, clock: Callable[[], float] = time.time) -> Library:
        """Open the library in a folder, which is made where it is missing.

        A damaged file is set aside under another name, and what can be read of it is taken over; ``notice`` says so.
        Answers that a crash left unfinished count as stopped. Where another program holds the file it is opened all the
        same, to be read, and to be written once it is free; ``notice`` says so, too.

        Raises:
            LibraryError: it cannot be opened or written, or comes from a newer Safelight.
        """
        path = folder / opening.NAME
        notice, left = "", list[Whole]()
        with explained(folder):
            private_folder(folder)
            try:
                connection = opening.open_sound(path)
            except opening.NoLibraryError:
                notice, left = _salvage(path, clock)
                connection = opening.open_sound(path)
            library = Library(connection, folder, clock)
            library.notice, library.left = notice, left
            try:
                library._tidy()
            except BaseException:
                connection.close()
                raise
        return library

    @staticmethod
    def in_memory(clock: Callable[[], float] = time.time) -> Library:
        """A library that is forgotten at the end, for when none can be opened."""
        return Library(opening.open_in_memory(), None, clock)

    def close(self) -> None:
        """Add what is left of a damaged library, and close the file. May be called twice."""
        if self.is_open:
            with suppress(LibraryError):  # it is in the file that was set aside
                self._take_over(float("inf"))
        self.is_open = False
        self._claims.close()
        self._connection.close()

    @contextmanager
    def patient(self, seconds: float) -> Iterator[None]:
        """All writes within wait so long together for another program's lock; else each waits ``BUSY_SECONDS``."""
        self._patient_until = time.monotonic() + seconds
        try:
            yield
        finally:
            self._patient_until = None
            with suppress(sqlite3.ProgrammingError):  # it was closed
                opening.wait_until(self._connection, time.monotonic() + opening.BUSY_SECONDS)

    def now(self) -> float:
        """Seconds since 1970 by the library's clock."""
        return self._clock()

    # ---------------------------------------------------------------- conversations

    def summaries(self, query: str = "") -> list[Summary]:
        """The conversations, pinned ones first, then those written to last; with a query those that have all of it."""
        with self._explained():
            return look_up(self._connection, query)

    def create(
        self,
        *,
        title: str = "",
        system_prompt: str = "",
        preset: str = "",
        model: str = "",
        created: float | None = None,
    ) -> int:
        """Begin an empty conversation; returns its identity.

        With ``created``, which no other may have, this can be tried again after a failure: there is one in any case.
        """
        now = self._clock() if created is None else created
        with self._writing():
            if created is not None:
                row = self._connection.execute("SELECT id FROM conversations WHERE created = ?", (now,)).fetchone()
                if row is not None:
                    return int(row[0])
            return self._insert(Summary(0, title, now, now, False, system_prompt, preset, model))

    def conversation(self, id: int) -> Summary:
        """One conversation."""
        with explained(self._place):
            row = self._connection.execute(
                f"SELECT {SUMMARY_COLUMNS} FROM conversations WHERE id = ? AND deleted IS NULL", (id,)
            ).fetchone()
        if row is None:
            raise GoneError(_GONE)
        return summary_of(row)

    def describe(
        self,
        id: int,
        *,
        title: str | None = None,
        system_prompt: str | None = None,
        preset: str | None = None,
        model: str | None = None,
        pinned: bool | None = None,
    ) -> None:
        """Change what is not None. The conversation keeps its place in time."""
        self._set(
            "conversations",
            id,
            _GONE,
            title=title,
            system_prompt=system_prompt,
            preset=preset,
            model=model,
            pinned=pinned,
        )

    def delete(self, id: int) -> None:
        """Take a conversation out of sight until ``restore`` or ``purge``."""
        with self._writing():
            self._connection.execute("UPDATE conversations SET deleted = ? WHERE id = ?", (self._clock(), id))
        self._deleted.add(id)

    def restore(self, id: int) -> None:
        """Undo ``delete``."""
        with self._writing():
            self._change_one("UPDATE conversations SET deleted = NULL WHERE id = ?", (id,), _GONE)
        self._deleted.discard(id)

    def purge(self) -> None:
        """Really remove what was deleted here, and by others more than ``UNDO_SECONDS`` ago."""
        before = self._clock() - UNDO_SECONDS
        with self._writing():
            execute = self._connection.execute
            rows = execute("SELECT id, deleted FROM conversations WHERE deleted IS NOT NULL").fetchall()
            for id in [id for id, deleted in rows if id in self._deleted or deleted < before]:
                execute("DELETE FROM conversations WHERE id = ?", (id,))
            rows = execute("SELECT DISTINCT removed, removed_at FROM messages WHERE removed IS NOT NULL").fetchall()
            for root in [root for root, removed_at in rows if root in self._removed or removed_at < before]:
                execute(f"{_BRANCH} DELETE FROM messages WHERE id IN branch", (root,))
        self._deleted.clear()
        self._removed.clear()

    def duplicate(self, id: int) -> int:
        """A copy of a conversation with all its branches; returns its identity."""
        now = self._clock()
        whole = self.whole(id)
        title = tr("{title} (copy)", title=whole.summary.title) if whole.summary.title else ""
        return self.take(
            replace(whole, summary=replace(whole.summary, title=title, created=now, updated=now, pinned=False))
        )

    def whole(self, id: int) -> Whole:
        """A conversation with all its messages. Raises also as ``messages``."""
        with explained(self._place), self._reading():
            return Whole(self.conversation(id), tuple(self.messages(id)))

    def reading(self, id: int) -> Generator[None, None, Callable[[], Whole]]:
        """As ``whole``, of a conversation of any length, in pieces of a few milliseconds.

        Returns what puts them together, which takes longer and needs the library no more: any thread may call it.
        """
        messages: list[StoredMessage] = []
        wanted: dict[int | None, int | None] = {}
        piece = -1
        while piece:
            with explained(self._place), self._reading():
                piece = self._read_some(id, messages, wanted, PIECE_MESSAGES)
            yield
        summary = self.conversation(id)
        return lambda: Whole(summary, tuple(with_shown(messages, wanted)))

    def take(self, whole: Whole) -> int:
        """Add a conversation from elsewhere, all of it or nothing; identities are given anew. Returns its own."""
        with self._writing():
            conversation = self._insert(whole.summary)
            self._insert_all(conversation, whole.messages, {None: None})
            return conversation

    def taking(self, whole: Whole) -> Generator[None, None, int]:
        """As ``take``, in pieces of a few hundredths of a second, so that a window can do other things between them.

        Until the last piece the conversation counts as deleted: what is left half done is purged like one.
        """
        with self._writing():
            conversation = self._insert(whole.summary)
            self._connection.execute("UPDATE conversations SET deleted = ? WHERE id = ?", (self._clock(), conversation))
        self._deleted.add(conversation)
        given: dict[int | None, int | None] = {None: None}
        for piece in _pieces(whole.messages):
            yield
            with self._writing():
                self._change_one(
                    "UPDATE conversations SET deleted = ? WHERE id = ?", (self._clock(), conversation), _GONE
                )
                self._insert_all(conversation, piece, given)
        self.restore(conversation)
        return conversation

    def taking_over(self) -> Generator[None, None, int]:
        """Add what is left of a damaged library, in pieces as ``taking``; returns how many conversations."""
        count = 0
        while self.left:
            yield from self.taking(self.left[0])
            del self.left[0]
            count += 1
        return count

    # ---------------------------------------------------------------- messages

    def messages(self, conversation: int) -> list[StoredMessage]:
        """All messages of a conversation that were not removed, oldest first: a tree, since each knows its parent.

        Raises ``LibraryError`` also where there are more than ``MOST_MESSAGES``.
        """
        messages: list[StoredMessage] = []
        wanted: dict[int | None, int | None] = {}
        with explained(self._place), self._reading():
            count = self._connection.execute(
                "SELECT count(*) FROM messages WHERE conversation = ? AND removed IS NULL", (conversation,)
            ).fetchone()[0]
            if count > MOST_MESSAGES:
                raise LibraryError(
                    f"this conversation has {count:,} messages; up to {MOST_MESSAGES:,} can be opened. "
                    "To read it, export it as Markdown or HTML from the list of conversations"
                )
            self._read_some(conversation, messages, wanted, count)
        return with_shown(messages, wanted)

    def _read_some(
        self, conversation: int, messages: list[StoredMessage], wanted: dict[int | None, int | None], most: int
    ) -> int:
        """Read on after the messages that are there, and what is on show below each; returns how many it were."""
        if not messages:
            first = self._connection.execute("SELECT child_shown FROM conversations WHERE id = ?", (conversation,))
            wanted[None] = next((shown for (shown,) in first), None)
        rows = self._connection.execute(
            f"SELECT {MESSAGE_COLUMNS}, child_shown FROM messages "
            "WHERE conversation = ? AND removed IS NULL AND id > ? ORDER BY id LIMIT ?",
            (conversation, messages[-1].id if messages else -(2**63), most),
        ).fetchall()
        wanted |= {row[-2]: row[-1] for row in rows}
        messages += [message_of(row[:-1]) for row in rows]
        return len(rows)

    def add(self, conversation: int, message: NewMessage, created: float | None = None) -> int:
        """Store a message and put it on show among its siblings; returns its identity.

        With ``created``, which no other may have, this can be tried again after a failure: there is one in any case.
        """
        now = self._clock() if created is None else created
        with self._writing():
            self._change_one(
                "UPDATE conversations SET updated = ? WHERE id = ? AND deleted IS NULL", (now, conversation), _GONE
            )
            if message.parent is not None:
                parent = self._connection.execute(
                    "SELECT 1 FROM messages WHERE id = ? AND conversation = ? AND removed IS NULL",
                    (message.parent, conversation),
                ).fetchone()
                if parent is None:
                    raise GoneError(_GONE_MESSAGE)
            row = None
            if created is not None:
                row = self._connection.execute(
                    "SELECT id FROM messages WHERE conversation = ? AND parent IS ? AND created = ?",
                    (conversation, message.parent, created),
                ).fetchone()
            id = row[0] if row is not None else insert_message(self._connection, conversation, now, message)
            self._put_on_show(conversation, message.parent, id)
            return int(id)

    def update(
        self,
        id: int,
        *,
        content: str | None = None,
        thinking: str | None = None,
        status: Status | None = None,
        error: str | None = None,
        figures: str | None = None,
        settings: str | None = None,
        model: str | None = None,
        seed: int | None = None,
    ) -> None:
        """Change what is not None. Cheap enough for every denoising step; search knows the text once it has ended."""
        self._set(
            "messages",
            id,
            _GONE_MESSAGE,
            content=content,
            thinking=thinking,
            status=status,
            error=error,
            figures=figures,
            settings=settings,
            model=model,
            seed=seed,
        )

    def show(self, id: int) -> None:
        """Put a message on show among those with the same parent."""
        with self._writing():
            row = self._connection.execute("SELECT conversation, parent FROM messages WHERE id = ?", (id,)).fetchone()
            if row is None:
                raise GoneError(_GONE_MESSAGE)
            self._put_on_show(row[0], row[1], id)

    def remove(self, id: int) -> None:
        """Take a message, and all that hangs under it, out of sight until ``put_back`` or ``purge``."""
        with self._writing():
            self._connection.execute(
                f"{_BRANCH} UPDATE messages SET removed = ?, removed_at = ? WHERE id IN branch AND removed IS NULL",
                (id, id, self._clock()),
            )
            schema.drop_removed(self._connection)
        self._removed.add(id)

    def put_back(self, id: int) -> None:
        """Undo ``remove``; the message is on show again if it was."""
        with self._writing():
            if self._connection.execute("SELECT 1 FROM messages WHERE id = ?", (id,)).fetchone() is None:
                raise GoneError(_GONE_MESSAGE)
            schema.index_put_back(self._connection, id)
            self._connection.execute("UPDATE messages SET removed = NULL, removed_at = NULL WHERE removed = ?", (id,))
        self._removed.discard(id)

    # ---------------------------------------------------------------- several windows

    def claim(self, conversation: int) -> bool:
        """Answer a conversation from now until ``release``, the end of this process at the latest.

        Returns:
            False where another window is answering it.
        """
        return self._claims.take(conversation)

    def release(self, conversation: int) -> None:
        """Another window may answer it again."""
        self._claims.release(conversation)

    # ---------------------------------------------------------------- within

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Faults in words. A damaged index for search is made anew, since all that is in it stands in the tables."""
        with explained(self._place):
            try:
                yield
            except sqlite3.DatabaseError as fault:
                if getattr(fault, "sqlite_errorcode", None) not in INDEX_FAULTS:
                    raise
                schema.index_again(self._connection)
                raise IndexDamagedError("the index for search was damaged and is made anew. Try again") from fault

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that begins as a writer's, so that it can wait for another's end."""
        with self._explained():
            if self._patient_until is not None:
                opening.wait_until(self._connection, self._patient_until)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite has ended it itself where the disk is full
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """One state of the file for several queries."""
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
        row = (
            storable(summary.title),
            summary.created,
            summary.updated,
            summary.pinned,
            storable(summary.system_prompt),
            storable(summary.preset),
            storable(summary.model),
        )
        columns = SUMMARY_COLUMNS.removeprefix("id, ")
        made = self._connection.execute(f"INSERT INTO conversations ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return made.lastrowid or 0

    def _insert_all(
        self, conversation: int, messages: Iterable[StoredMessage], given: dict[int | None, int | None]
    ) -> None:
        """Add messages, parents before their children; ``given`` has the new identity of each old one."""
        for message in messages:
            new = {name: getattr(message, name) for name in _NEW_FIELDS}
            new["parent"] = given.get(message.parent)
            if message.status in UNFINISHED:
                new["status"] = "stopped"
            given[message.id] = id = insert_message(self._connection, conversation, message.created, NewMessage(**new))
            if message.shown:
                self._put_on_show(conversation, new["parent"], id)

    def _put_on_show(self, conversation: int, parent: int | None, id: int) -> None:
        if parent is None:
            self._connection.execute("UPDATE conversations SET child_shown = ? WHERE id = ?", (id, conversation))
        else:
            self._connection.execute("UPDATE messages SET child_shown = ? WHERE id = ?", (id, parent))

    def _set(self, table: str, id: int, gone: str, **columns: str | int | None) -> None:
        given = {
            name: storable(value) if isinstance(value, str) else value
            for name, value in columns.items()
            if value is not None
        }
        if given:
            changes = ", ".join(f"{name} = ?" for name in given)
            with self._writing():
                self._change_one(f"UPDATE {table} SET {changes} WHERE id = ?", (*given.values(), id), gone)
                if table == "messages":
                    schema.drop_removed(self._connection, id)  # an answer may end after its removal

    def _change_one(self, statement: str, values: tuple[object, ...], gone: str) -> None:
        if not self._connection.execute(statement, values).rowcount:
            raise GoneError(gone)

    def _tidy(self) -> None:
        """Settle what was left at the end before. Where another program holds the file that waits, and is said."""
        try:
            try:
                with self._explained():
                    if not schema.is_indexed(self._connection):  # it has suffered
                        schema.index_again(self._connection)
                self._stop_unfinished()
            except IndexDamagedError:
                self._stop_unfinished()
        except LibraryError as error:
            if not (isinstance(error.__cause__, sqlite3.Error) and opening.is_held(error.__cause__)):
                raise
            held = tr("{problem}. What you write is saved as soon as that is possible.", problem=str(error))
            self.notice = f"{self.notice} {held}".strip()
            return
        with suppress(LibraryError):  # it is tried again at the end
            try:
                self.purge()
            except IndexDamagedError:
                self.purge()

    def _stop_unfinished(self) -> None:
        """Mark unfinished answers as stopped, but for those that another window is writing."""
        with self._writing():  # so that no other begins one meanwhile
            others = self._claims.of_others()
            self._connection.execute(
                "UPDATE messages SET status = 'stopped' WHERE status IN ('waiting', 'developing') "
                f"AND conversation NOT IN ({', '.join('?' * len(others))})",
                others,
            )
            schema.drop_removed(self._connection)  # one that was removed unfinished has just been indexed

    def _take_over(self, seconds: float) -> None:
        """Add conversations that are left for so many seconds of work, in one transaction."""
        ends = time.thread_time() + seconds
        taken = 0
        if self.left:
            with self._writing():
                while taken < len(self.left) and time.thread_time() < ends:
                    whole = self.left[taken]
                    self._insert_all(self._insert(whole.summary), whole.messages, {None: None})
                    taken += 1
            del self.left[:taken]


def _salvage(path: Path, clock: Callable[[], float]) -> tuple[str, list[Whole]]:
    """Put a new library in the place of a damaged one, with what can be read of it.

    Returns what to tell the user, and the conversations for which there was no time yet.

    The damaged file stays where it is until the other is complete: where the disk is full or the app is killed, the
    next start begins again.
    """
    fresh = path.with_name("library-salvaged.sqlite")
    opening.remove(fresh)
    library = Library(opening.open_sound(fresh), path.parent, clock)
    try:
        salvaged = salvage.read(path)
        library.left = list(salvaged.wholes)
        library._take_over(TAKE_OVER_SECONDS)
        left = library.left
    finally:
        library.left = []
        library.close()
    aside = opening.put_in_place(path, fresh)
    return _told(aside.name, len(salvaged.wholes), salvaged.is_all), left


def _told(name: str, count: int, is_all: bool) -> str:
    if count:
        said = trn(
            "The library was damaged. It was set aside as {name}; {count} conversation could be read and is here.",
            "The library was damaged. It was set aside as {name}; {count} conversations could be read and are here.",
            count,
            name=name,
        )
    else:
        said = tr(
            "The library was damaged and nothing in it could be read. It was set aside as {name}, a new one begun.",
            name=name,
        )
    return said if is_all else said + " " + tr("Reading all of it would have taken too long: the rest is in that file.")


def _pieces(messages: Iterable[StoredMessage]) -> Iterator[list[StoredMessage]]:
    """Messages in lots that are quickly written: few, and together not longer than the longest one must be."""
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


_BRANCH = """WITH RECURSIVE branch (id) AS (
    VALUES (?) UNION SELECT messages.id FROM messages JOIN branch ON messages.parent = branch.id
)"""
