"""Makes Ctrl+C in the terminal end the app, as Qt's event loop does not run Python's signal handlers by itself."""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType

from PySide6.QtCore import QCoreApplication, QMetaObject, QObject, QSocketNotifier, Qt, Slot


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
