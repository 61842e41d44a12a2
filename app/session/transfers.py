"""Exports and imports conversations without blocking the window: files in threads, the library in small steps."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from app.library import Library, Whole, transfer
from app.system.i18n import tr
from app.system.timers import every
from engine import SafelightError


class Transfer(QObject):
    """Runs one generator of the library at a time; one still running when the library is closed is dropped."""

    failed = Signal(str)  # why, in a sentence
    slice_seconds = 0.0  # of steps before the event loop runs again; at least one step

    def __init__(self, library: Library, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._is_busy = False
        self._steps: Generator[None, None, Any] | None = None
        self._timer = every(self, self._go_on)  # zero interval: runs when no other event is pending

    def _begin(self, steps: Generator[None, None, Any]) -> None:
        self._steps = steps
        self._timer.start()

    @Slot()
    def _go_on(self) -> None:
        if self._steps is None or not self._library.is_open:
            self._timer.stop()
            return
        until = time.monotonic() + self.slice_seconds
        try:
            next(self._steps)
            while time.monotonic() < until:
                next(self._steps)
        except StopIteration as end:
            self._stop()
            self._end(end.value)
        except SafelightError as error:
            self._stop()
            self.failed.emit(str(error))
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        self._timer.stop()
        self._steps, self._is_busy = None, False

    def _end(self, result: Any) -> None:
        """Handles the result of the generator."""
        raise NotImplementedError


class Erasing(Transfer):
    """Erases conversations for good, with their runs."""

    erased = Signal()
    slice_seconds = 0.008

    def begin(self, *conversations: int) -> None:
        """Erases deleted conversations, or without any what has lapsed; ``erased`` or ``failed`` follows."""
        if self._is_busy:
            self.failed.emit(tr("Other conversations are still being erased. Try again in a moment."))
            return
        self._is_busy = True
        self._begin(self._library.erasing(*conversations))

    def _end(self, _result: None) -> None:
        self.erased.emit()


class Exporting(Transfer):
    """Reads a conversation, and writes it to a file in a thread."""

    exported = Signal(str)  # the file
    slice_seconds = 0.008
    _written = Signal(str, str)  # from the thread: the file, and the problem, empty if none

    def __init__(self, library: Library, parent: QObject | None = None) -> None:
        super().__init__(library, parent)
        self._form, self._path = "", Path()
        self._written.connect(self._report)

    def begin(self, conversation: int, form: str, path: Path) -> None:
        """Writes a conversation as "markdown" or "json"; ``exported`` or ``failed`` follows."""
        if self._is_busy:
            self.failed.emit(tr("Another conversation is still being exported. Try again once it is done."))
            return
        self._is_busy, self._form, self._path = True, form, path
        self._begin(self._library.reading(conversation))

    def _end(self, whole: Callable[[], Whole]) -> None:
        self._is_busy = True  # until it is written
        threading.Thread(target=self._write, args=(whole, self._form, self._path), name="export").start()

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
    def _report(self, path: str, problem: str) -> None:
        self._is_busy = False
        if problem:
            self.failed.emit(problem)
        else:
            self.exported.emit(path)


class Importing(Transfer):
    """Reads a file in a thread, and stores its conversation."""

    imported = Signal(int)  # the conversation's id
    _read = Signal(object)  # from the thread: a Whole, the file's error, or None for an unexpected exception

    def __init__(self, library: Library, parent: QObject | None = None) -> None:
        super().__init__(library, parent)
        self._read.connect(self._store)

    def begin(self, path: Path) -> None:
        """Imports a JSON file that Safelight has exported; ``imported`` or ``failed`` follows."""
        if self._is_busy:
            self.failed.emit(tr("Another conversation is still being imported. Try again once it is done."))
            return
        self._is_busy = True
        threading.Thread(target=self._read_file, args=(path,), name="import", daemon=True).start()

    def _read_file(self, path: Path) -> None:
        found: Whole | SafelightError | None = None
        try:
            found = transfer.read_file(path)
            for picture in found.pictures:
                self._library.pictures.keep(picture)
        except SafelightError as error:
            found = error
        finally:
            with contextlib.suppress(RuntimeError):  # the window is gone
                self._read.emit(found)

    @Slot(object)
    def _store(self, found: Whole | SafelightError | None) -> None:
        if isinstance(found, Whole):
            self._begin(self._library.taking(found))
            return
        self._is_busy = False
        if found is not None:
            self.failed.emit(str(found))

    def _end(self, conversation: int) -> None:
        self.imported.emit(conversation)
