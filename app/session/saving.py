"""Saving: what is on screen gets into the library, at once or as soon as that can be; at the end into files, if not.

Nothing here holds the window for longer than ``STEP_SECONDS``, but for the closing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.library import GoneError, LibraryError
from app.library.conversations import Keeper
from app.session import rescue
from app.session.unsaved import Unsaved
from app.state.chat.conversation import ChatState
from app.system import logs
from app.system.i18n import tr
from engine import SafelightError

STEP_SECONDS = 0.1  # the longest that a step waits for another program's lock
RETRY_MS = 1000  # between two tries to write what waits
RETRY_SECONDS = 0.03  # that each of them waits for the lock: no more than a frame or two
CLOSING_SECONDS = 2.0  # for what still waits when the window is closed


class Saving(QObject):
    """Writes one session's changes in their order, and tries again what cannot be written."""

    failed = Signal(str, str)  # what went wrong in a sentence, and details
    problem_changed = Signal(str)  # why not all that is on screen is saved; empty once it is

    def __init__(self, keeper: Keeper) -> None:
        super().__init__()
        self.problem = ""
        self._keeper = keeper
        self._library = keeper.library
        self._unsaved = Unsaved(keeper.library)
        self._has_warned = False  # that closing loses something
        self._retry = QTimer(self)
        self._retry.setInterval(RETRY_MS)
        self._retry.timeout.connect(self._try_again)

    @property
    def chats(self) -> list[ChatState]:
        """The conversations that are not all saved."""
        return self._unsaved.chats

    def keep(self, kind: str, item: Hashable, chat: ChatState, write: Callable[[], None]) -> None:
        """Write a change of an item of a conversation, or let it wait; nobody waits again for a lock that is held on.

        ``write`` may be called again after a failure, and writes what there is then: of those that wait for the same
        kind and item only the last is called.
        """
        self._unsaved.add((kind, item), chat, write)
        self.save(0.0 if self.problem else STEP_SECONDS)

    def save(self, seconds: float = STEP_SECONDS) -> None:
        """Write what is not saved yet, and wait so long at most for another program's lock.

        What cannot be written is said once, and tried again at the next change and every second.
        """
        before = self.problem
        try:
            self._unsaved.write(seconds)
        except GoneError as error:
            self.failed.emit(str(error), "")
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
            self.failed.emit(
                tr("{problem}. Until then nothing is lost: Safelight tries again by itself.", problem=self.problem), ""
            )

    def require_saved(self) -> None:
        """Save what waits, before anything else in the library is changed or read as a whole.

        Raises:
            LibraryError: it cannot be saved now.
        """
        self.save()
        if self.problem:
            raise LibraryError(self.problem)

    @Slot()
    def _try_again(self) -> None:
        self.save(RETRY_SECONDS)

    # ---------------------------------------------------------------- the end

    def may_close(self) -> bool:
        """Whether nothing is lost by closing now. Where something can be saved nowhere, that is said and False once."""
        self.save()
        if not self._unsaved or self._has_warned:
            return True
        try:
            for chat in self.chats:
                rescue.write(self._library, self._keeper.whole(chat)).unlink()
        except SafelightError as error:
            self._has_warned = True
            self.failed.emit(
                tr("{problem}. Not all is saved yet: if you close Safelight once more, it is lost.", problem=error), ""
            )
            return False
        return True

    def close(self) -> None:
        """Write what waits in ``CLOSING_SECONDS``; what cannot be goes into files, which the next start brings in."""
        self._retry.stop()
        ends = time.monotonic() + CLOSING_SECONDS
        while self._unsaved:
            try:
                self._unsaved.write(max(0.0, ends - time.monotonic()))
            except GoneError:
                continue
            except LibraryError as error:
                if time.monotonic() >= ends:
                    self._rescue(str(error))
                    return
                time.sleep(0.05)  # the disk is full, and another program may just be making room

    def _rescue(self, problem: str) -> None:
        for chat in self.chats:
            try:
                said = f"{problem}; a conversation was saved as {rescue.write(self._library, self._keeper.whole(chat))}"
            except SafelightError as error:
                said = f"{problem}; a conversation was not saved: {error}"
            logs.log.error(said)
            print(f"safelight: {said}", file=sys.stderr)
