"""Ctrl+C as a flag, for commands that end in good order. Knows no model."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STOPPED = 130  # exit code


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yields a flag set by the first Ctrl+C or request to end the program; a second one ends it at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set signal handlers
        yield stop
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform == "win32":
        numbers.append(signal.SIGBREAK)
    before = {number: signal.getsignal(number) for number in numbers}

    def handle(number: int, _frame: Any) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in numbers:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
