"""Timers that fire once."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, SignalInstance


def later(owner: QObject, call: Callable[[], object] | SignalInstance, ms: int = 0) -> QTimer:
    """Returns a timer that calls once, ``ms`` milliseconds after each ``start``; it is not started yet."""
    made = QTimer(owner)
    made.setSingleShot(True)
    made.setInterval(ms)
    made.timeout.connect(call)
    return made
