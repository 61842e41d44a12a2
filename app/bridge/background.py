"""Runs a job in a thread and returns its result to the window, for work that would block typing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal, SignalInstance, Slot

from app.system.i18n import tr
from app.system.timers import every
from engine import SafelightError

POLL_MS = 15

Job = Callable[[], object]
Receiver = Callable[..., object] | SignalInstance


class Background(QObject):
    """Runs one job at a time. While one runs, only the latest further job waits, and only its result is reported.

    With a receiver of ``refused``, exceptions other than SafelightError are raised in the window's thread.

    The window polls the thread instead of being called by it, so a job may outlive the window safely. Threads end with
    their job.
    """

    done = Signal(object)  # the result
    failed = Signal(object)  # the exception
    refused = Signal(str)  # the exception as a sentence, if it is a SafelightError

    def __init__(
        self, parent: QObject | None = None, done: Receiver | None = None, refused: Receiver | None = None
    ) -> None:
        super().__init__(parent)
        if done is not None:
            self.done.connect(done)
        self._raises = refused is not None
        if refused is not None:
            self.refused.connect(refused)
        self._running: _Thread | None = None
        self._next: Job | None = None
        self._dropped = False
        self._poll = every(self, self._look, POLL_MS)

    @property
    def is_busy(self) -> bool:
        return self._next is not None or (self._running is not None and not self._dropped)

    def ask(self, job: Job) -> None:
        """Runs a job in place of earlier ones, whose results are dropped. A job must not touch widgets."""
        self._next = job
        if self._running is None:
            self._start()

    def drop(self) -> None:
        """Drops the waiting job and the result of the running one."""
        self._next = None
        self._dropped = True

    def _start(self) -> None:
        assert self._next is not None
        self._running = _Thread(self._next)
        self._next = None
        self._dropped = False
        self._running.start()
        self._poll.start()

    @Slot()
    def _look(self) -> None:
        thread = self._running
        if thread is None or thread.is_alive():
            return
        self._running = None
        if self._next is not None:
            self._start()
            return
        self._poll.stop()
        if self._dropped:
            return
        error = thread.error
        if error is None:
            self.done.emit(thread.result)
            return
        self.failed.emit(error)
        if isinstance(error, SafelightError):
            self.refused.emit(tr(str(error)))
        elif self._raises:
            raise error


class _Thread(threading.Thread):
    def __init__(self, job: Job) -> None:
        super().__init__(name="safelight-background")
        self._job = job
        self.result: object = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.result = self._job()
        except Exception as error:  # reported by the receiver of ``failed``
            self.error = error
