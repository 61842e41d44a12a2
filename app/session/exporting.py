"""Exports conversations to files without blocking the window: reads in small steps, writes in a thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.library import Library, Whole, transfer
from app.system.i18n import tr
from engine import SafelightError

SLICE_SECONDS = 0.008  # of reading, before the event loop runs again


class Exporting(QObject):
    """One export at a time. An export still being read when the library is closed is dropped."""

    exported = Signal(str)  # the file
    failed = Signal(str)  # why, in a sentence
    _written = Signal(str, str)  # from the thread: the file, and the problem, empty if none

    def __init__(self, library: Library, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._is_busy = False
        self._reading: Generator[None, None, Callable[[], Whole]] | None = None
        self._form, self._path = "", Path()
        self._timer = QTimer(self)  # zero interval: runs when no other event is pending
        self._timer.timeout.connect(self._read)
        self._written.connect(self._end)

    def begin(self, conversation: int, form: str, path: Path) -> None:
        """Writes a conversation as "markdown", "json" or "html"; ``exported`` or ``failed`` follows."""
        if self._is_busy:
            self.failed.emit(tr("Another conversation is still being exported. Try again once it is written."))
            return
        self._is_busy, self._form, self._path = True, form, path
        self._reading = self._library.reading(conversation)
        self._read()

    @Slot()
    def _read(self) -> None:
        reading = self._reading
        if reading is None or not self._library.is_open:
            self._timer.stop()
            return
        until = time.monotonic() + SLICE_SECONDS
        try:
            next(reading)
            while time.monotonic() < until:
                next(reading)
            self._timer.start()
        except StopIteration as end:
            self._stop_reading()
            threading.Thread(target=self._write, args=(end.value, self._form, self._path), name="export").start()
        except SafelightError as error:
            self._stop_reading()
            self._end(str(self._path), str(error))
        except BaseException:
            self._stop_reading()
            self._is_busy = False
            raise

    def _stop_reading(self) -> None:
        self._timer.stop()
        self._reading = None

    def _write(self, whole: Callable[[], Whole], form: str, path: Path) -> None:
        problem = tr("The export failed. Try another format.")
        try:
            transfer.write_file(path, whole(), form)
            problem = ""
        except SafelightError as error:
            problem = str(error)
        finally:
            with contextlib.suppress(RuntimeError):  # the window is gone
                self._written.emit(str(path), problem)

    @Slot(str, str)
    def _end(self, path: str, problem: str) -> None:
        self._is_busy = False
        if problem:
            self.failed.emit(problem)
        else:
            self.exported.emit(path)
