"""The library of conversations on disk. Every call is one short transaction, whose result survives a kill."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from app.library import opening, schema
from app.library.errors import GoneError, LibraryError, explained
from app.library.records import (
    ORIGIN,
    SUMMARY_COLUMNS,
    NewMessage,
    Status,
    Summary,
    Whole,
    details_of,
    named_pictures,
    summary_of,
)
from app.library.store import BRANCH, GONE, GONE_MESSAGE, Store, pieces
from app.system.i18n import tr
from app.system.locks import Claims
from engine import SafelightError
from engine.clock import this_moment
from engine.files import private_folder
from engine.trace import REMOVED, end_removing, forks_in, removing, with_forks

KEPT_DAYS = 30  # for which a deleted conversation can be restored
KEPT_SECONDS = KEPT_DAYS * 86_400.0
UNDO_SECONDS = 60.0
"""Time for which ``erasing`` keeps what another window has removed and may put back, or is importing."""

TRACES = "traces"  # the folder of recorded runs, in that of the library
_RUN = re.compile(r'"trace": "([0-9a-f]{32})"')  # in the settings of a message, for its run and for rounds of calls


class Library(Store):
    """The library, used from one thread. ``notice`` is a message for the user about its opening, or empty.

    Every method raises ``LibraryError`` if the file cannot be read or written: the disk is full, another program has
    locked it, or the conversation was deleted in another window. Nothing is half written then.
    """

    def __init__(self, connection: sqlite3.Connection, folder: Path | None, clock: Callable[[], float]) -> None:
        super().__init__(connection, folder, clock)
        self.notice = ""
        self.is_open = True
        self.claims = Claims(folder)  # on the conversations that are being answered
        self._removed: set[int] = set()

    @staticmethod
    def open(folder: Path, clock: Callable[[], float] = this_moment) -> Library:
        """Opens the library in a folder, which is made if missing.

        A damaged file is renamed, and a new one is made; ``notice`` reports that. Answers that a crash left unfinished
        become stopped. If another program has locked the file, it can be read, and written once it is free; ``notice``
        reports that, too.

        Raises:
            LibraryError: it cannot be opened or written, or comes from a newer Safelight.
        """
        path = folder / opening.NAME
        notice = ""
        with explained(folder):
            private_folder(folder)
            try:
                connection = opening.open_sound(path)
            except opening.NoLibraryError:
                notice = tr(
                    "The library was damaged and cannot be read. It is kept as {name}; a new one was made.",
                    name=opening.set_aside(path).name,
                )
                connection = opening.open_sound(path)
            library = Library(connection, folder, clock)
            library.notice = notice
            try:
                library._tidy()
            except BaseException:
                connection.close()
                raise
        return library

    @staticmethod
    def in_memory(clock: Callable[[], float] = this_moment) -> Library:
        """Returns a library in memory that is lost at the end, for when none can be opened."""
        connection = opening.connect(":memory:")
        schema.make(connection)
        return Library(connection, None, clock)

    def reopen(self) -> Library:
        """Opens the same file once more, for another thread. Raises ``LibraryError`` for a library in memory."""
        if self.folder is None:
            raise LibraryError("the library is not on the disk. Start Safelight again, and import then")
        with explained(self.folder):
            return Library(opening.connect(self.folder / opening.NAME), self.folder, self.now)

    def close(self) -> None:
        """Closes the file. May be called twice."""
        self.is_open = False
        self.claims.close()
        self._connection.close()

    def create(
        self,
        *,
        title: str = "",
        system_prompt: str = "",
        preset: str = "",
        model: str = "",
        created: float | None = None,
    ) -> int:
        """Begins an empty conversation; returns its id.

        With a unique ``created`` the call can be repeated after a failure: only one conversation is made.
        """
        now = self.now() if created is None else created
        with self._writing():
            if created is not None:
                row = self._connection.execute("SELECT id FROM conversations WHERE created = ?", (now,)).fetchone()
                if row is not None:
                    return int(row[0])
            return self._insert(Summary(0, title, now, now, False, system_prompt, preset, model))

    def describe(
        self,
        id: int,
        *,
        title: str | None = None,
        system_prompt: str | None = None,
        preset: str | None = None,
        pinned: bool | None = None,
    ) -> None:
        """Changes the fields that are not None. The time of the last message stays."""
        columns = {"title": title, "system_prompt": system_prompt, "preset": preset, "pinned": pinned}
        self._set("conversations", id, GONE, columns)

    def delete(self, *ids: int) -> None:
        """Hides conversations, all or none, until ``restore``; after ``KEPT_DAYS`` they lapse."""
        with self._writing():
            for id in ids:
                self._connection.execute("UPDATE conversations SET deleted = ? WHERE id = ?", (self.now(), id))

    def lapse(self, id: int) -> None:
        """Hides a conversation that was never whole, and so is not offered for restoring; erased soon."""
        with self._writing():
            self._lapse(id)

    def _lapse(self, id: int) -> None:
        lapsed = self.now() - KEPT_SECONDS
        self._change_one("UPDATE conversations SET deleted = ? WHERE id = ?", (lapsed, id), GONE)

    def restore(self, *ids: int) -> None:
        """Undoes ``delete``."""
        with self._writing():
            for id in ids:
                self._change_one("UPDATE conversations SET deleted = NULL WHERE id = ?", (id,), GONE)

    def deleted(self) -> list[Summary]:
        """Returns the conversations that can be restored, with the time of their deletion as ``updated``."""
        with explained(self._place):
            rows = self._connection.execute(
                f"SELECT {SUMMARY_COLUMNS}, deleted FROM conversations WHERE deleted > ? "
                "ORDER BY deleted DESC, id DESC",
                (self.now() - KEPT_SECONDS,),
            ).fetchall()
        return [replace(summary_of(row), updated=deleted, pinned=False) for *row, deleted in rows]

    def hidden_runs(self) -> frozenset[str]:
        """Returns the ids of the runs that only deleted conversations and removed messages have."""
        deleted = "conversation IN (SELECT id FROM conversations WHERE deleted IS NOT NULL)"
        with explained(self._place), self._reading():
            gone, kept = self._runs_by(f"(removed IS NOT NULL OR {deleted})")
            return gone - kept

    def _runs_by(self, condition: str) -> tuple[frozenset[str], frozenset[str]]:
        """Returns the ids of the runs that messages under an SQL condition have, and those that others have."""
        named: dict[int, set[str]] = {0: set(), 1: set()}
        if self._connection.execute(f"SELECT 1 FROM messages WHERE {condition}").fetchone() is not None:
            for is_under, settings in self._connection.execute(
                f"SELECT {condition}, settings FROM messages WHERE role = 'assistant'"
            ):
                named[is_under].update(_RUN.findall(settings))
        return frozenset(named[1]), frozenset(named[0])

    def purge(self) -> None:
        """Erases what this process has removed, and what ``erasing`` does."""
        with self._writing():
            for root in self._removed:
                self._connection.execute("UPDATE messages SET removed_at = 0 WHERE removed = ?", (root,))
        for _ in self.erasing():
            pass
        self._removed.clear()

    def erasing(self, *conversations: int) -> Generator[None, None, None]:
        """Erases these deleted conversations, or without any what has lapsed, in steps of a few milliseconds.

        Conversations lapse ``KEPT_DAYS`` after their deletion, removed messages after ``UNDO_SECONDS``. The runs of
        erased messages go with them, with all forks, unless another message has them.

        Raises:
            LibraryError: nothing is erased then; also if the file of a run cannot be removed.
        """
        before = self.now() - UNDO_SECONDS
        is_removed = "0" if conversations else f"ifnull(removed_at < {before}, 0)"
        is_gone = f"deleted < {before - KEPT_SECONDS}"
        of_gone = f"({is_removed} OR conversation IN (SELECT id FROM conversations WHERE {is_gone}))"
        if self.folder is not None and any((self.folder / TRACES).glob(f"*{REMOVED}")):  # by a crash
            with self._writing():  # no other window removes any meanwhile
                end_removing(self.folder / TRACES, self._runs_by("1")[0])
        with explained(self._place):
            execute = self._connection.execute
            if (
                not conversations
                and not execute(
                    f"SELECT 1 FROM messages WHERE {of_gone} UNION SELECT 1 FROM conversations WHERE {is_gone}"
                ).fetchone()
            ):
                self._sweep_pictures(set())
                return
        forks: defaultdict[str, list[Path]] = defaultdict(list)
        for origin, path in forks_in(self.folder / TRACES) if self.folder is not None else ():
            forks[origin].append(path)
            yield
        with ExitStack() as runs, self._writing():  # the files are removed after the rows
            for id in conversations:
                execute("UPDATE conversations SET deleted = 0 WHERE id = ? AND deleted IS NOT NULL", (id,))
            for (root,) in execute(f"SELECT DISTINCT removed FROM messages WHERE {is_removed}").fetchall():
                execute(f"{BRANCH} UPDATE messages SET removed_at = 0 WHERE id IN branch", (root,))
            named = set() if self.pictures.is_empty else named_pictures(self._connection)
            if self.folder is not None:
                gone, kept = self._runs_by(of_gone)
                try:
                    runs.enter_context(removing(with_forks(self.folder / TRACES, gone - kept, forks, kept)))
                except SafelightError as error:
                    raise LibraryError(str(error)) from error
            execute(f"DELETE FROM conversations WHERE {is_gone}")
            execute(f"DELETE FROM messages WHERE {is_removed}")
        with explained(self._place):
            execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # the log has the text, too; a busy one stays
        self._sweep_pictures(named)

    def _sweep_pictures(self, named: set[str]) -> None:
        """Removes the pictures that no message shows any longer: those ``named`` before at once."""
        aside = () if self.folder is None else self.folder.glob(opening.ASIDE)  # damaged files, which may use pictures
        if not self.pictures.is_empty and not any(aside):
            with self._writing():  # no other window adds a message meanwhile
                left = named_pictures(self._connection)
                self.pictures.sweep(left, gone=named - left)

    def insert(self, whole: Whole) -> int:
        """Adds an imported conversation, completely or not at all, with new ids. Returns its id."""
        for picture in whole.pictures:
            self.pictures.keep(picture)
        with self._writing():
            conversation = self._insert(whole.summary)
            self._insert_all(conversation, whole.messages, {None: None})
            return conversation

    def inserting(self, whole: Whole) -> Generator[None, None, int]:
        """Adds a conversation as ``insert``, in steps of hundredths of a second between which the window can work.

        Until the last step the conversation counts as lapsed, so an interrupted one is purged. Pictures should be
        stored before, in another thread.
        """
        for picture in whole.pictures:
            self.pictures.keep(picture)
            yield
        with self._writing():
            conversation = self._insert(whole.summary)
            self._lapse(conversation)
        new_ids: dict[int | None, int | None] = {None: None}
        for piece in pieces(whole.messages):
            yield
            with self._writing():
                self._lapse(conversation)
                self._insert_all(conversation, piece, new_ids)
        self.restore(conversation)
        return conversation

    def origins(self) -> set[str]:
        """Returns where imported conversations came from, but for deleted ones: programs, with their ids."""
        with explained(self._place):
            rows = self._connection.execute(
                "SELECT settings FROM messages WHERE parent IS NULL AND removed IS NULL AND settings LIKE ? AND "
                "conversation IN (SELECT id FROM conversations WHERE deleted IS NULL)",
                (f'{{"{ORIGIN}"%',),
            ).fetchall()
        return {details_of(settings, "settings")[ORIGIN] for (settings,) in rows}

    def add(self, conversation: int, message: NewMessage, created: float | None = None) -> int:
        """Stores a message as the shown one among its siblings; returns its id.

        With a unique ``created`` the call can be repeated after a failure: only one message is stored.
        """
        now = self.now() if created is None else created
        with self._writing():
            self._change_one(
                "UPDATE conversations SET updated = ? WHERE id = ? AND deleted IS NULL", (now, conversation), GONE
            )
            if message.parent is not None:
                parent = self._connection.execute(
                    "SELECT 1 FROM messages WHERE id = ? AND conversation = ? AND removed IS NULL",
                    (message.parent, conversation),
                ).fetchone()
                if parent is None:
                    raise GoneError(GONE_MESSAGE)
            row = None
            if created is not None:
                row = self._connection.execute(
                    "SELECT id FROM messages WHERE conversation = ? AND parent IS ? AND created = ?",
                    (conversation, message.parent, created),
                ).fetchone()
            id = row[0] if row is not None else self._insert_message(conversation, now, message)
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
    ) -> None:
        """Changes the fields that are not None. Cheap enough for every denoising step.

        Search finds the text once the answer has ended.
        """
        columns = {
            "content": content,
            "thinking": thinking,
            "status": status,
            "error": error,
            "figures": figures,
            "settings": settings,
        }
        self._set("messages", id, GONE_MESSAGE, columns)

    def show(self, id: int) -> None:
        """Makes a message the shown one among those with the same parent."""
        with self._writing():
            row = self._connection.execute("SELECT conversation, parent FROM messages WHERE id = ?", (id,)).fetchone()
            if row is None:
                raise GoneError(GONE_MESSAGE)
            self._put_on_show(row[0], row[1], id)

    def remove(self, id: int) -> None:
        """Hides a message and all its descendants until ``put_back`` or ``purge``."""
        with self._writing():
            self._connection.execute(
                f"{BRANCH} UPDATE messages SET removed = ?, removed_at = ? WHERE id IN branch AND removed IS NULL",
                (id, id, self.now()),
            )
            schema.drop_removed(self._connection)
        self._removed.add(id)

    def put_back(self, id: int) -> None:
        """Undoes ``remove``; the message is shown again if it was before."""
        with self._writing():
            if self._connection.execute("SELECT 1 FROM messages WHERE id = ?", (id,)).fetchone() is None:
                raise GoneError(GONE_MESSAGE)
            schema.index_put_back(self._connection, id)
            self._connection.execute("UPDATE messages SET removed = NULL, removed_at = NULL WHERE removed = ?", (id,))
        self._removed.discard(id)

    def _tidy(self) -> None:
        """Marks answers that the last session left unfinished as stopped, except those that another window is writing.

        ``notice`` says if another program locks the file.
        """
        try:
            with self._writing():  # so that no other window begins one meanwhile
                others = self.claims.of_others()
                self._connection.execute(
                    "UPDATE messages SET status = 'stopped' WHERE status IN ('waiting', 'developing') "
                    f"AND conversation NOT IN ({', '.join('?' * len(others))})",
                    others,
                )
                schema.drop_removed(self._connection)  # the trigger has just indexed removed ones
        except LibraryError as error:
            if not (isinstance(error.__cause__, sqlite3.Error) and opening.is_held(error.__cause__)):
                raise
            held = tr("{problem}. What you write is saved as soon as possible.", problem=str(error))
            self.notice = f"{self.notice} {held}".strip()
