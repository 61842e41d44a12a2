"""Timers that fire once."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, SignalInstance


def one_shot(parent: QObject, receiver: Callable[..., object] | SignalInstance, milliseconds: int = 0) -> QTimer:
    """Returns a timer that fires once each time it is started; ``start`` without a time waits ``milliseconds``."""
    made = QTimer(parent)
    made.setSingleShot(True)
    made.setInterval(milliseconds)
    made.timeout.connect(receiver)
    return made
