"""Timers that call."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, SignalInstance


def later(owner: QObject, call: Callable[[], object] | SignalInstance, ms: int = 0) -> QTimer:
    """Returns a timer that calls once, ``ms`` milliseconds after each ``start``; it is not started yet."""
    made = every(owner, call, ms)
    made.setSingleShot(True)
    return made


def every(owner: QObject, call: Callable[[], object] | SignalInstance, ms: int = 0) -> QTimer:
    """Returns a timer that calls each ``ms`` milliseconds once it is started; 0: when no other event is pending."""
    made = QTimer(owner, interval=ms)
    made.timeout.connect(call)
    return made
