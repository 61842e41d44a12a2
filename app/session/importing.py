"""Imports conversations without blocking the window: reads in a thread, stores in small steps."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.library import Library, Whole, transfer
from app.system.i18n import tr
from engine import SafelightError


class Importing(QObject):
    """One import at a time. An import still running when the library is closed is dropped."""

    imported = Signal(int)  # the conversation's id
    taken_over = Signal()  # the rest of a damaged library was added
    failed = Signal(str)  # why, in a sentence
    _read = Signal(object)  # from the thread: a Whole, the file's error, or None for an unexpected exception

    def __init__(self, library: Library, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._is_busy = False
        self._is_import = True
        self._storing: Generator[None, None, int] | None = None
        self._timer = QTimer(self)  # zero interval: runs when no other event is pending
        self._timer.timeout.connect(self._go_on)
        self._read.connect(self._store)

    def begin(self, path: Path) -> None:
        """Imports a JSON file that Safelight has exported; ``imported`` or ``failed`` follows."""
        if self._is_busy:
            self.failed.emit(tr("Another conversation is still being imported. Try again once it is there."))
            return
        self._is_busy, self._is_import = True, True
        threading.Thread(target=self._read_file, args=(path,), name="import", daemon=True).start()

    def take_over(self) -> None:
        """Adds the readable part of a damaged library, if there is one; ``taken_over`` or ``failed`` follows."""
        if self._library.left:
            self._is_busy, self._is_import = True, False
            self._storing = self._library.taking_over()
            self._timer.start()

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
            self._storing = self._library.taking(found)
            self._timer.start()
            return
        self._is_busy = False
        if found is not None:
            self.failed.emit(str(found))

    @Slot()
    def _go_on(self) -> None:
        if self._storing is None or not self._library.is_open:
            self._timer.stop()
            return
        try:
            next(self._storing)
        except StopIteration as end:
            self._end()
            if self._is_import:
                self.imported.emit(end.value)
            else:
                self.taken_over.emit()
        except SafelightError as error:
            self._end()
            self.failed.emit(str(error))
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        self._timer.stop()
        self._storing, self._is_busy = None, False
