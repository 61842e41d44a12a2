"""Saves the conversations on screen to the library, at once or as soon as possible; at the end to files if needed.

Calls block the window for at most ``STEP_SECONDS``, except when closing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.library import GoneError, LibraryError
from app.library.conversations import ConversationStore
from app.session import rescue
from app.state.chat.conversation import ChatState
from app.system import logs
from app.system.i18n import tr
from engine import SafelightError

STEP_SECONDS = 0.1  # longest wait of a step for another program's lock
RETRY_MS = 1000  # between two attempts to write pending changes
RETRY_SECONDS = 0.03  # wait of each attempt for the lock: one or two frames
SLICE_SECONDS = 0.1  # least time for writing in one call, as many writes may be queued when a lock is released
CLOSING_SECONDS = 2.0  # most time for pending changes when the window is closed


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
        self._retry = QTimer(self)
        self._retry.setInterval(RETRY_MS)
        self._retry.timeout.connect(self._try_again)

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
                rescue.write(self._library, self._stored.whole(chat)).unlink()
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
                said = f"{problem}; a conversation was saved as {rescue.write(self._library, self._stored.whole(chat))}"
            except SafelightError as error:
                said = f"{problem}; a conversation was not saved: {error}"
            logs.log.error(said)
            print(f"safelight: {said}", file=sys.stderr)
