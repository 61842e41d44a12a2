"""Timers that call, Python's cycle collector in the GUI thread, and Ctrl+C in a terminal.

By default the collector runs in any thread that allocates, also the engine's; a Qt object in a cycle would be destroyed
in the wrong thread, which crashes the program. Qt's event loop runs no signal handlers by itself.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
from collections.abc import Callable
from types import FrameType

from PySide6.QtCore import QCoreApplication, QMetaObject, QObject, QSocketNotifier, Qt, QTimer, SignalInstance, Slot


def later(owner: QObject, call: Callable[[], object] | SignalInstance, ms: int = 0) -> QTimer:
    """Returns a timer that calls once, ``ms`` milliseconds after each ``start``; it is not started yet."""
    timer = every(owner, call, ms)
    timer.setSingleShot(True)
    return timer


def every(owner: QObject, call: Callable[[], object] | SignalInstance, ms: int = 0) -> QTimer:
    """Returns a timer that calls each ``ms`` milliseconds once it is started; 0: when no other event is pending."""
    timer = QTimer(owner, interval=ms)
    timer.timeout.connect(call)
    return timer


PERIOD_MS = 1000
FULL_EVERY = 30  # periods


class CycleCollector(QObject):
    """Collects once a second; ``close`` restores Python's automatic collection."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._periods = 0
        gc.disable()
        self._timer = every(self, self._collect, PERIOD_MS)
        self._timer.start()

    def close(self) -> None:
        self._timer.stop()
        gc.enable()

    @Slot()
    def _collect(self) -> None:
        self._periods += 1
        gc.collect(2 if self._periods % FULL_EVERY == 0 else 1)


class Interrupts(QObject):
    """Quits the app on SIGINT: each signal wakes the event loop through a socket, so that Python's handler runs."""

    def __init__(self, app: QCoreApplication) -> None:
        super().__init__(app)
        self._app = app
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._notifier = QSocketNotifier(self._reader.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._wake)
        self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._old_handler = signal.signal(signal.SIGINT, self._quit)

    def close(self) -> None:
        """Restores the previous handlers."""
        signal.signal(signal.SIGINT, self._old_handler)
        signal.set_wakeup_fd(self._old_fd)
        self._notifier.setEnabled(False)
        self._reader.close()
        self._writer.close()

    def _quit(self, _number: int, _frame: FrameType | None) -> None:
        # Queued, as quit() has no effect before the event loop runs, while the window is being made.
        QMetaObject.invokeMethod(self._app, "quit", Qt.ConnectionType.QueuedConnection)

    @Slot()
    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(64)  # Python calls the handler when it runs any code
