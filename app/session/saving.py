"""Saves the conversations on screen to the library, at once or as soon as possible; at the end to files if needed.

Calls block the window for at most ``STEP_SECONDS``, except when closing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.library import GoneError, Library, LibraryError, Whole, transfer
from app.library.conversations import ConversationStore
from app.state.chat.conversation import ChatState
from app.system import logs
from app.system.folders import free_name
from app.system.i18n import tr, trn
from app.system.timers import every
from engine import SafelightError
from engine.files import is_plain_file, storable, write_text

NAME = "library-rescued-"
MAX_RESCUED_BYTES = 4 * 2**20  # imported at a start, which waits about 0.2 s for it
STEP_SECONDS = 0.1  # longest wait of a step for another program's lock
RETRY_MS = 1000  # between two attempts to write pending changes
RETRY_SECONDS = 0.03  # wait of each attempt for the lock: one or two frames
SLICE_SECONDS = 0.1  # least time for writing in one call, as many writes may be queued when a lock is released
CLOSING_SECONDS = 2.0  # most time for pending changes when the window is closed


def write_rescue(library: Library, whole: Whole) -> Path:
    """Writes a conversation to a separate file and returns its path.

    Raises:
        SafelightError: it could not be written anywhere.
    """
    failure: SafelightError | None = None
    for folder in _folders(library):
        path = free_name(folder / f"{_prefix(library)}{time.strftime('%Y%m%d-%H%M%S')}.json")
        try:
            write_text(path, storable(transfer.to_json(whole)), private=True)
        except SafelightError as error:
            failure = failure or error
        else:
            return path
    assert failure is not None
    raise failure


def bring_in(library: Library) -> str:
    """Imports rescued files into the library. Returns a message for the user, empty if there were none.

    A file that cannot be imported now stays in place, and the message names it.
    """
    imported, left, room = 0, [], MAX_RESCUED_BYTES
    for path in _files(library):
        try:
            size = path.stat().st_size
            if size > room:
                left.append(path)
                continue
            room -= size
            library.insert(transfer.read_file(path))
            imported += 1
            path.unlink()
        except (SafelightError, OSError):
            left.append(path)
    messages = []
    if imported:
        messages.append(
            trn(
                "{count} conversation that could not be saved when Safelight closed has been restored.",
                "{count} conversations that could not be saved when Safelight closed have been restored.",
                imported,
            )
        )
    if left:
        names = ", ".join(str(path) for path in left[:3])
        messages.append(tr("What could not be saved when Safelight closed is in {names}. Import it.", names=names))
    return " ".join(messages)


def _prefix(library: Library) -> str:
    """Returns a file name prefix for a library, as several may share the temporary folder."""
    return f"{NAME}{zlib.crc32(os.fsencode(str(library.folder))):08x}-"


def _folders(library: Library) -> Iterator[Path]:
    if library.folder is not None:
        yield library.folder
    yield Path(tempfile.gettempdir())


def _files(library: Library) -> list[Path]:
    """Returns the files written by ``write``: regular files owned by the user."""
    files: list[Path] = []
    if library.folder is None:
        return files
    for folder in _folders(library):
        prefix = NAME if folder == library.folder else _prefix(library)  # the data folder may have been moved
        with contextlib.suppress(OSError):
            files += sorted(path for path in folder.glob(f"{prefix}*.json") if _is_ours(path))
    return files


def _is_ours(path: Path) -> bool:
    return is_plain_file(path) and (not hasattr(os, "getuid") or path.lstat().st_uid == os.getuid())


class Saving(QObject):
    """Writes one session's changes in order, and retries what cannot be written.

    Each write stores the state at the time it runs, so one for each item is enough. ``report`` gets a failure in a
    sentence.
    """

    problem_changed = Signal(str)  # why something on screen is not saved; empty once all is

    def __init__(self, stored: ConversationStore, report: Callable[[str], object]) -> None:
        super().__init__()
        self.problem = ""
        self._stored = stored
        self._library = stored.library
        self._report = report
        self._unsaved: dict[Hashable, tuple[ChatState, Callable[[], None]]] = {}  # by kind and item
        self._has_warned = False  # the user was warned that closing loses something
        self._retry = every(self, self._try_again, RETRY_MS)

    @property
    def chats(self) -> list[ChatState]:
        """Conversations with unsaved changes."""
        return list({id(chat): chat for chat, _ in self._unsaved.values()}.values())

    def keep(self, kind: str, item: Hashable, chat: ChatState, write: Callable[[], None]) -> None:
        """Writes a change of an item of a conversation, or queues it. After a failure, changes do not wait for a lock.

        ``write`` may be called again after a failure, and writes the state at that time. If several are queued for the
        same kind and item, only the last is called.
        """
        self._unsaved.pop((kind, item), None)
        self._unsaved[kind, item] = chat, write
        self.save(0.0 if self.problem else STEP_SECONDS)

    def save(self, seconds: float = STEP_SECONDS) -> None:
        """Writes the pending changes, waiting at most ``seconds`` for another program's lock.

        A failure is reported once; the write is retried at the next change and every second.
        """
        before = self.problem
        try:
            self._write(seconds)
        except GoneError as error:
            self._report(str(error))
        except LibraryError as error:
            self.problem = str(error)
        if not self._unsaved:
            self.problem, self._has_warned = "", False
            self._retry.stop()
        elif not self._retry.isActive():
            self._retry.start()
        if self.problem != before:
            self.problem_changed.emit(self.problem)
        if self.problem and not before:
            self._report(tr("{problem}. Until then nothing is lost: Safelight keeps trying.", problem=self.problem))

    def _write(self, seconds: float) -> None:
        """Runs the queued writes, waiting ``seconds`` in total for another program's lock.

        Raises:
            GoneError: an item was deleted in another window; its write is dropped.
            LibraryError: a write failed; it and all after it stay queued.
        """
        ends = time.monotonic() + max(seconds, SLICE_SECONDS)
        gone: GoneError | None = None
        with self._library.patient(seconds):
            while self._unsaved and time.monotonic() < ends:
                key, (_, write) = next(iter(self._unsaved.items()))
                try:
                    write()
                except GoneError as error:
                    gone = error
                except LibraryError:
                    raise
                except BaseException:
                    del self._unsaved[key]  # an unexpected exception must not block the writes behind it
                    raise
                del self._unsaved[key]
        if gone is not None:
            raise gone

    def require_saved(self) -> None:
        """Saves pending changes, before the library is changed elsewhere or read as a whole.

        Raises:
            LibraryError: it cannot be saved now.
        """
        self.save()
        if self.problem:
            raise LibraryError(self.problem)

    @Slot()
    def _try_again(self) -> None:
        self.save(RETRY_SECONDS)

    def may_close(self) -> bool:
        """Returns True if closing now loses no change. If it would, warns and returns False, but only once."""
        self.save()
        if not self._unsaved or self._has_warned:
            return True
        try:
            for chat in self.chats:
                write_rescue(self._library, self._stored.whole(chat)).unlink()
        except SafelightError as error:
            self._has_warned = True
            self._report(
                tr("{problem}. Not everything is saved: if you close Safelight again, the rest is lost.", problem=error)
            )
            return False
        return True

    def close(self) -> None:
        """Writes pending changes within ``CLOSING_SECONDS``; the rest goes to files that the next start imports."""
        self._retry.stop()
        ends = time.monotonic() + CLOSING_SECONDS
        while self._unsaved:
            try:
                self._write(max(0.0, ends - time.monotonic()))
            except GoneError:
                continue
            except LibraryError as error:
                if time.monotonic() >= ends:
                    self._rescue(str(error))
                    return
                time.sleep(0.05)  # a full disk may have room again

    def _rescue(self, problem: str) -> None:
        for chat in self.chats:
            try:
                said = f"{problem}; a conversation was saved as {write_rescue(self._library, self._stored.whole(chat))}"
            except SafelightError as error:
                said = f"{problem}; a conversation was not saved: {error}"
            logs.log.error(said)
            print(f"safelight: {said}", file=sys.stderr)
